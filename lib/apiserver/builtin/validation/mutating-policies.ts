/**
 * Checks of MutatingAdmissionPolicies and their bindings (kubernetes `pkg/apis/admissionregistration/validation/validation.go`).
 * Expressions are checked for syntax only.
 */
import { fieldError, type Cause } from '../../schema/field-error.ts';
import type { JsonObject } from '../../../json/json.ts';
import { objectAt, objectsAt, textAt, textsAt, valueAt } from '../../../json/fields.ts';
import {
  checkConstraints,
  checkExpression,
  checkMatchConditions,
  checkParamKind,
  checkParamRef,
  checkVariableNames,
} from './admission.ts';
import { checkName } from './checks.ts';

/** Without DELETE: deletions cannot be mutated. */
const operations = ['*', 'CONNECT', 'CREATE', 'UPDATE'];

export function mutatingPolicyCauses(policy: JsonObject): Cause[] {
  const causes: Cause[] = [];
  const spec = objectAt(policy, 'spec');
  checkParamKind(spec, causes);
  if (valueAt(spec, 'matchConstraints') === undefined)
    causes.push(fieldError.required('spec.matchConstraints'));
  else {
    checkConstraints(spec, causes);
    checkOperations(objectAt(spec, 'matchConstraints'), 'spec.matchConstraints', causes);
  }
  checkMatchConditions(spec, 'spec', causes);
  checkVariableNames(spec, causes);
  for (const [index, variable] of objectsAt(spec, 'variables').entries())
    checkExpression(textAt(variable, 'expression'), `spec.variables[${index}].expression`, causes);
  const mutations = objectsAt(spec, 'mutations');
  if (mutations.length === 0)
    causes.push(fieldError.required('spec.mutations', 'mutations must contain at least one item'));
  for (const [index, mutation] of mutations.entries())
    checkMutation(mutation, `spec.mutations[${index}]`, causes);
  if (textAt(spec, 'reinvocationPolicy') === '') causes.push(fieldError.required('spec.reinvocationPolicy'));
  return causes;
}

const patches = { ApplyConfiguration: 'applyConfiguration', JSONPatch: 'jsonPatch' } as const;

function checkMutation(mutation: JsonObject, path: string, causes: Cause[]): void {
  const type = textAt(mutation, 'patchType');
  if (type === '') causes.push(fieldError.required(`${path}.patchType`));
  if (type !== 'ApplyConfiguration' && type !== 'JSONPatch') return;
  const field = patches[type];
  const other = type === 'JSONPatch' ? 'applyConfiguration' : 'jsonPatch';
  if (valueAt(mutation, other) !== undefined) {
    const words = `must not be specified when patchType is ${type}`;
    causes.push(fieldError.invalid(`${path}.${other}`, `{${other}}`, words));
  }
  const patch = valueAt(mutation, field);
  if (patch === undefined)
    causes.push(fieldError.required(`${path}.${field}`, `must be specified when patchType is ${type}`));
  else checkExpression(textAt(patch, 'expression'), `${path}.${field}.expression`, causes);
}

function checkOperations(match: JsonObject, path: string, causes: Cause[]): void {
  for (const rule of objectsAt(match, 'resourceRules')) {
    for (const operation of textsAt(rule, 'operations')) {
      if (operation === 'DELETE')
        causes.push(fieldError.notSupported(`${path}.resourceRules.operations`, operation, operations));
    }
  }
}

export function mutatingBindingCauses(binding: JsonObject): Cause[] {
  const causes: Cause[] = [];
  const spec = objectAt(binding, 'spec');
  const name = textAt(spec, 'policyName');
  if (name === '') causes.push(fieldError.required('spec.policyName'));
  else checkName('dns-subdomain', name, 'spec.policyName', causes);
  checkParamRef(spec, causes);
  checkOperations(objectAt(spec, 'matchResources'), 'spec.matchResources', causes);
  return causes;
}
