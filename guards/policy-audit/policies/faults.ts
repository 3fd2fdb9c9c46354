/**
 * Finds the problems of a policy, by field, that can be found without its modules. The API rejects such a policy
 * when it is written, as Kubernetes does for expressions in its own policies and Kubewarden's controller for those
 * in its kinds. Pure.
 */
import { RampartError } from '../../../lib/errors/errors.ts';
import type {
  AnyKubewardenPolicy,
  MutatingAdmissionPolicy,
  MutatingAdmissionPolicyBinding,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
} from '../api.ts';
import { matchConditionProblems } from '../engine/cel/match-conditions.ts';
import { celProblems } from '../engine/cel/open.ts';
import type { Problem } from '../engine/cel/settings.ts';
import { groupProblems } from '../engine/group/open.ts';
import { isCelModule, type ModuleProgram } from '../engine/program.ts';
import { readAdmissionPolicy, readKubewardenPolicy } from './read-policy.ts';

/** Faults of a policy of Kubewarden. */
export function policyFaults(object: AnyKubewardenPolicy): readonly Problem[] {
  let policy;
  try {
    policy = readKubewardenPolicy(object);
  } catch (error) {
    if (!(error instanceof RampartError)) throw error;
    return [{ reason: 'FieldValueInvalid', field: 'spec', message: `Invalid value: ${error.message}` }];
  }
  const { program, matchConditions } = policy;
  const conditions = below('spec.', matchConditionProblems(matchConditions));
  if (program.type === 'module') return [...conditions, ...below('spec.settings.', settingsFaults(program))];
  if (program.type === 'expressions') return conditions;
  const { expression } = program;
  return [
    ...conditions,
    ...groupProblems(program).map((why): Problem => {
      const message = `Invalid value: ${JSON.stringify(expression)}: ${why}`;
      return { reason: 'FieldValueInvalid', field: 'spec.expression', message };
    }),
    ...[...program.members].flatMap(([name, member]) =>
      below(`spec.policies.${name}.settings.`, settingsFaults(member)),
    ),
  ];
}

/** Faults of a policy of Kubernetes; `paramRef` comes from its bindings. */
export function admissionPolicyFaults(
  object: MutatingAdmissionPolicy | ValidatingAdmissionPolicy,
): readonly Problem[] {
  const binding = { metadata: {}, spec: { policyName: '', validationActions: [] } };
  const { matchConstraints } = object.spec ?? {};
  const policy = { metadata: {}, spec: { ...(matchConstraints && { matchConstraints }) } };
  return [
    ...selectorFaults(policy, binding, 'spec.matchConstraints'),
    ...below('spec.', celProblems({ ...object.spec }, 'validating-admission-policy')),
  ];
}

/** Faults of a binding of Kubernetes. */
export function bindingFaults(
  object: MutatingAdmissionPolicyBinding | ValidatingAdmissionPolicyBinding,
): readonly Problem[] {
  const { policyName = '', matchResources } = object.spec ?? {};
  const validating = { policyName, validationActions: [], ...(matchResources && { matchResources }) };
  return selectorFaults({ metadata: {} }, { metadata: {}, spec: validating }, 'spec.matchResources');
}

/** If its selectors cannot be parsed, a policy applies to nothing. */
function selectorFaults(
  policy: ValidatingAdmissionPolicy,
  binding: ValidatingAdmissionPolicyBinding,
  field: string,
): Problem[] {
  try {
    readAdmissionPolicy(policy, binding);
    return [];
  } catch (error) {
    if (!(error instanceof RampartError)) throw error;
    return [{ reason: 'FieldValueInvalid', field, message: `Invalid value: ${error.message}` }];
  }
}

/** Only settings of expressions are checked here: modules check their settings when they run. */
function settingsFaults({ module, settings }: ModuleProgram): readonly Problem[] {
  return isCelModule(module) ? celProblems(settings, 'cel-policy') : [];
}

function below(path: string, problems: readonly Problem[]): Problem[] {
  return problems.map((problem) => ({ ...problem, field: path + problem.field }));
}
