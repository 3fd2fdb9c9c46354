/**
 * Checks of admission policies and webhooks (kubernetes `pkg/apis/admissionregistration/validation/validation.go`). CEL
 * expressions are checked for syntax, not for types: nothing here runs them.
 */
import { messageOf } from '../../../errors/errors.ts';
import { labelKeyProblems } from '../../../kube/selectors/label-names.ts';
import { parse } from '../../../cel/parser.ts';
import { fieldError, type Cause } from '../../schema/field-error.ts';
import type { JsonObject } from '../../../json/json.ts';
import { listAt, numberAt, objectAt, objectsAt, textAt, textsAt, valueAt } from '../../../json/fields.ts';
import { addProblems, checkName, checkSelector, checkUnique } from './checks.ts';
import { checkClient, checkReviewVersions } from './webhook-client.ts';

export function checkExpression(expression: string, path: string, causes: Cause[]): void {
  if (expression.trim() === '') {
    causes.push(fieldError.required(path, `${path.slice(path.lastIndexOf('.') + 1)} is not specified`));
    return;
  }
  try {
    parse(expression);
  } catch (error) {
    const words = `compilation failed: ${messageOf(error)}`;
    causes.push(fieldError.invalid(path, expression, words));
  }
}

function checkRule(rule: JsonObject, path: string, causes: Cause[]): void {
  for (const field of ['operations', 'apiVersions', 'apiGroups', 'resources'] as const) {
    const values = textsAt(rule, field);
    if (values.length === 0) causes.push(fieldError.required(`${path}.${field}`));
    if (field === 'resources') checkResources(values, `${path}.${field}`, causes);
    else if (values.length > 1 && values.includes('*')) {
      const words = "if '*' is present, must not specify other " + listNames[field];
      causes.push(fieldError.invalid(`${path}.${field}`, values, words));
    }
  }
  for (const field of ['apiVersions', 'resources']) {
    for (const [index, value] of textsAt(rule, field).entries()) {
      if (value === '') causes.push(fieldError.required(`${path}.${field}[${index}]`));
    }
  }
}

const listNames = {
  operations: 'operations',
  apiVersions: 'API versions',
  apiGroups: 'API groups',
} as const;

/** A wildcard must not cover another entry. */
function checkResources(resources: readonly string[], path: string, causes: Cause[]): void {
  resources.forEach((resource, index) => {
    const slash = resource.indexOf('/');
    if (slash < 0) return;
    const before = resources.slice(0, index);
    for (const wildcard of [`${resource.slice(0, slash)}/*`, `*${resource.slice(slash)}`]) {
      if (!before.includes(wildcard)) continue;
      const words = `if '${wildcard}' is present, must not specify ${resource}`;
      causes.push(fieldError.invalid(`${path}[${index}]`, resource, words));
    }
  });
  if (resources.length > 1 && resources.includes('*/*')) {
    const words = "if '*/*' is present, must not specify other resources";
    causes.push(fieldError.invalid(path, resources, words));
  }
  // As in Kubernetes, only the last resource without a subresource is compared with `*`.
  const last = resources.findLast((resource) => resource !== '' && !resource.includes('/'));
  if (resources.includes('*') && last !== undefined && last !== '*') {
    const words = "if '*' is present, must not specify other resources without subresources";
    causes.push(fieldError.invalid(path, resources, words));
  }
}

const maxMatchConditions = 64;

export function checkMatchConditions(parent: JsonObject, path: string, causes: Cause[]): void {
  const conditions = objectsAt(parent, 'matchConditions');
  const names = conditions.map((condition) => textAt(condition, 'name'));
  if (conditions.length > maxMatchConditions)
    causes.push(fieldError.tooMany(`${path}.matchConditions`, conditions.length, maxMatchConditions));
  for (const [index, condition] of conditions.entries()) {
    const at = `${path}.matchConditions[${index}]`;
    // A missing expression is refused by the schema.
    if (valueAt(condition, 'expression') !== undefined) {
      const expression = textAt(condition, 'expression').trim();
      if (expression === '') causes.push(fieldError.required(`${at}.expression`));
      else checkExpression(expression, `${at}.expression`, causes);
    }
    const name = textAt(condition, 'name');
    if (name !== '') addProblems(labelKeyProblems(name), name, `${at}.name`, causes);
    else if (valueAt(condition, 'name') !== undefined) causes.push(fieldError.required(`${at}.name`));
  }
  checkUnique(names, (index) => `${path}.matchConditions[${index}].name`, causes);
}

export function webhookCauses(configuration: JsonObject): Cause[] {
  const causes: Cause[] = [];
  const webhooks = objectsAt(configuration, 'webhooks');
  for (const [index, webhook] of webhooks.entries()) {
    const path = `webhooks[${index}]`;
    const name = textAt(webhook, 'name');
    if (valueAt(webhook, 'name') !== undefined) checkName('dns-subdomain', name, `${path}.name`, causes);
    if (name !== '' && name.split('.').length < 3) {
      const words = 'should be a domain with at least three segments separated by dots';
      causes.push(fieldError.invalid(`${path}.name`, name, words));
    }
    for (const [position, rule] of objectsAt(webhook, 'rules').entries()) {
      checkRule(rule, `${path}.rules[${position}]`, causes);
    }
    for (const field of ['namespaceSelector', 'objectSelector']) {
      checkSelector(objectAt(webhook, field), `${path}.${field}`, causes);
    }
    checkTimeout(numberAt(webhook, 'timeoutSeconds'), path, causes);
    checkReviewVersions(webhook, path, causes);
    checkClient(webhook, path, causes);
    checkMatchConditions(webhook, path, causes);
  }
  const names = webhooks.map((webhook) => textAt(webhook, 'name'));
  checkUnique(names, (index) => `webhooks[${index}].name`, causes);
  return causes;
}

function checkTimeout(seconds: number | undefined, path: string, causes: Cause[]): void {
  if (seconds === undefined || (seconds >= 1 && seconds <= 30)) return;
  const words = 'the timeout value must be between 1 and 30 seconds';
  causes.push(fieldError.invalid(`${path}.timeoutSeconds`, seconds, words));
}

export function admissionPolicyCauses(policy: JsonObject): Cause[] {
  const causes: Cause[] = [];
  const spec = objectAt(policy, 'spec');
  if (valueAt(policy, 'spec') === undefined) {
    causes.push(fieldError.required('spec'));
    return causes;
  }
  if (valueAt(spec, 'matchConstraints') === undefined)
    causes.push(fieldError.required('spec.matchConstraints'));
  else checkConstraints(spec, causes);
  checkParamKind(spec, causes);
  if (listAt(spec, 'validations').length === 0 && listAt(spec, 'auditAnnotations').length === 0) {
    const words = 'validations or auditAnnotations must contain at least one item';
    causes.push(fieldError.required('spec.validations', words));
    causes.push(fieldError.required('spec.auditAnnotations', words));
  }
  for (const [field, expressions] of Object.entries(expressionFields)) {
    for (const [index, item] of objectsAt(spec, field).entries()) {
      for (const name of expressions) {
        const expression = valueAt(item, name);
        if (typeof expression === 'string')
          checkExpression(expression, `spec.${field}[${index}].${name}`, causes);
      }
    }
  }
  checkVariableNames(spec, causes);
  checkMatchConditions(spec, 'spec', causes);
  return causes;
}

export function checkParamKind(spec: JsonObject, causes: Cause[]): void {
  const parameters = valueAt(spec, 'paramKind');
  if (parameters === undefined) return;
  for (const field of ['apiVersion', 'kind']) {
    if (textAt(parameters, field) === '') causes.push(fieldError.required(`spec.paramKind.${field}`));
  }
}

export function checkVariableNames(spec: JsonObject, causes: Cause[]): void {
  for (const [index, variable] of objectsAt(spec, 'variables').entries()) {
    const name = textAt(variable, 'name');
    if (!/^[_a-zA-Z][_a-zA-Z0-9]*$/.test(name)) {
      causes.push(
        fieldError.invalid(`spec.variables[${index}].name`, name, 'name is not a valid CEL identifier'),
      );
    }
  }
}

/** Lists of the spec, and which fields of their items are expressions. */
const expressionFields: Readonly<Record<string, readonly string[]>> = {
  auditAnnotations: ['valueExpression'],
  validations: ['expression', 'messageExpression'],
  variables: ['expression'],
};

export function checkConstraints(spec: JsonObject, causes: Cause[]): void {
  const path = 'spec.matchConstraints';
  const constraints = objectAt(spec, 'matchConstraints');
  const rules = objectsAt(constraints, 'resourceRules');
  if (rules.length === 0) causes.push(fieldError.required(`${path}.resourceRules`));
  for (const list of ['resourceRules', 'excludeResourceRules']) {
    for (const [index, rule] of objectsAt(constraints, list).entries()) {
      checkRule(rule, `${path}.${list}[${index}]`, causes);
    }
  }
  for (const field of ['namespaceSelector', 'objectSelector']) {
    checkSelector(objectAt(constraints, field), `${path}.${field}`, causes);
  }
}

export function admissionBindingCauses(binding: JsonObject): Cause[] {
  const causes: Cause[] = [];
  const spec = objectAt(binding, 'spec');
  if (valueAt(spec, 'policyName') !== undefined) {
    checkName('dns-subdomain', textAt(spec, 'policyName'), 'spec.policyName', causes);
  }
  const actions = textsAt(spec, 'validationActions');
  if (actions.length === 0) {
    causes.push(fieldError.required('spec.validationActions', 'at least one validation action is required'));
  }
  checkUnique(actions, (index) => `spec.validationActions[${index}]`, causes);
  if (actions.includes('Deny') && actions.includes('Warn')) {
    const words =
      'must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)';
    causes.push(fieldError.invalid('spec.validationActions', actions, words));
  }
  checkParamRef(spec, causes);
  return causes;
}

export function checkParamRef(spec: JsonObject, causes: Cause[]): void {
  const ref = valueAt(spec, 'paramRef');
  if (ref === undefined) return;
  const given = [textAt(ref, 'name') !== '', valueAt(ref, 'selector') !== undefined];
  if (given.every((one) => one)) {
    const words = 'name and selector are mutually exclusive';
    causes.push(fieldError.forbidden('spec.paramRef.name', words));
  } else if (!given.includes(true)) {
    causes.push(fieldError.required('spec.paramRef', 'one of name or selector must be specified'));
  }
  if (textAt(ref, 'parameterNotFoundAction') === '') {
    causes.push(fieldError.required('spec.paramRef.parameterNotFoundAction'));
  }
}
