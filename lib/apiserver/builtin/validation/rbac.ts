/** Checks of roles and bindings (kubernetes `pkg/apis/rbac/validation/validation.go`). */
import { fieldError, type Cause } from '../../schema/field-error.ts';
import { deepEqual, type JsonObject } from '../../../json/json.ts';
import { listAt, objectAt, objectsAt, textAt, valueAt } from '../../../json/fields.ts';
import { checkName, checkSelector } from './checks.ts';

const group = 'rbac.authorization.k8s.io';

export function roleCauses(role: JsonObject): Cause[] {
  const causes: Cause[] = [];
  checkRules(role, true, causes);
  return causes;
}

export function clusterRoleCauses(role: JsonObject): Cause[] {
  const causes: Cause[] = [];
  checkRules(role, false, causes);
  const path = 'aggregationRule.clusterRoleSelectors';
  if (valueAt(role, 'aggregationRule') === undefined) return causes;
  const selectors = objectsAt(role, 'aggregationRule', 'clusterRoleSelectors');
  if (selectors.length === 0) {
    const words = 'at least one clusterRoleSelector required if aggregationRule is non-nil';
    causes.push(fieldError.required(path, words));
  }
  for (const [index, selector] of selectors.entries()) checkSelector(selector, `${path}[${index}]`, causes);
  return causes;
}

function checkRules(role: JsonObject, namespaced: boolean, causes: Cause[]): void {
  for (const [index, rule] of objectsAt(role, 'rules').entries()) {
    const path = `rules[${index}]`;
    const has = (field: string): boolean => listAt(rule, field).length > 0;
    if (!has('verbs')) {
      causes.push(fieldError.required(`${path}.verbs`, 'verbs must contain at least one value'));
    }
    if (has('nonResourceURLs')) {
      if (namespaced) {
        const words = 'namespaced rules cannot apply to non-resource URLs';
        causes.push(fieldError.invalid(`${path}.nonResourceURLs`, rule['nonResourceURLs'], words));
      }
      if (has('apiGroups') || has('resources') || has('resourceNames')) {
        const words = 'rules cannot apply to both regular resources and non-resource URLs';
        causes.push(fieldError.invalid(`${path}.nonResourceURLs`, rule['nonResourceURLs'], words));
      }
      continue;
    }
    if (!has('apiGroups')) {
      const words = 'resource rules must supply at least one api group';
      causes.push(fieldError.required(`${path}.apiGroups`, words));
    }
    if (!has('resources')) {
      const words = 'resource rules must supply at least one resource';
      causes.push(fieldError.required(`${path}.resources`, words));
    }
  }
}

export function roleBindingCauses(binding: JsonObject, old: JsonObject | undefined): Cause[] {
  return bindingCauses(binding, old, ['Role', 'ClusterRole']);
}

export function clusterRoleBindingCauses(binding: JsonObject, old: JsonObject | undefined): Cause[] {
  return bindingCauses(binding, old, ['ClusterRole']);
}

function bindingCauses(binding: JsonObject, old: JsonObject | undefined, kinds: readonly string[]): Cause[] {
  const causes: Cause[] = [];
  const ref = objectAt(binding, 'roleRef');
  if (valueAt(binding, 'roleRef') !== undefined) {
    const refGroup = textAt(ref, 'apiGroup');
    if (refGroup !== group) causes.push(fieldError.notSupported('roleRef.apiGroup', refGroup, [group]));
    const kind = textAt(ref, 'kind');
    if (!kinds.includes(kind)) causes.push(fieldError.notSupported('roleRef.kind', kind, kinds));
    const name = textAt(ref, 'name');
    checkName('path-segment', name, 'roleRef.name', causes);
  }
  for (const [index, subject] of objectsAt(binding, 'subjects').entries()) {
    checkSubject(subject, `subjects[${index}]`, causes);
  }
  if (old !== undefined && !deepEqual(binding['roleRef'], old['roleRef'])) {
    causes.push(fieldError.invalid('roleRef', ref, 'cannot change roleRef'));
  }
  return causes;
}

function checkSubject(subject: JsonObject, path: string, causes: Cause[]): void {
  const [kind, name, ownGroup] = [
    textAt(subject, 'kind'),
    textAt(subject, 'name'),
    textAt(subject, 'apiGroup'),
  ];
  if (valueAt(subject, 'name') === '') causes.push(fieldError.required(`${path}.name`));
  if (kind === 'ServiceAccount') {
    if (name !== '') checkName('dns-subdomain', name, `${path}.name`, causes);
    if (ownGroup !== '') causes.push(fieldError.notSupported(`${path}.apiGroup`, ownGroup, ['']));
    if (textAt(subject, 'namespace') === '') causes.push(fieldError.required(`${path}.namespace`));
  } else if (kind === 'User' || kind === 'Group') {
    if (ownGroup !== group) causes.push(fieldError.notSupported(`${path}.apiGroup`, ownGroup, [group]));
  } else if (valueAt(subject, 'kind') !== undefined) {
    causes.push(fieldError.notSupported(`${path}.kind`, kind, ['ServiceAccount', 'User', 'Group']));
  }
}
