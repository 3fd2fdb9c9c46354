import type { Column } from '../../resources/resource.ts';
import type { JsonObject } from '../../../json/json.ts';
import { listAt, objectAt, objectsAt, textAt } from '../../../json/fields.ts';
import { ageColumn, column, nameColumn } from './column.ts';

function subjects(kind: string) {
  return (binding: JsonObject): string =>
    objectsAt(binding, 'subjects')
      .filter((subject) => textAt(subject, 'kind') === kind)
      .map((subject) =>
        kind === 'ServiceAccount' && textAt(subject, 'namespace') !== ''
          ? `${textAt(subject, 'namespace')}/${textAt(subject, 'name')}`
          : textAt(subject, 'name'),
      )
      .join(', ');
}

export const bindingColumns: readonly Column[] = [
  nameColumn,
  column(
    'Role',
    'Role that is granted.',
    (binding) => `${textAt(binding, 'roleRef', 'kind')}/${textAt(binding, 'roleRef', 'name')}`,
  ),
  ageColumn,
  column('Users', 'Users that have the role.', subjects('User'), { wide: true }),
  column('Groups', 'Groups that have the role.', subjects('Group'), { wide: true }),
  column('ServiceAccounts', 'Service accounts that have the role.', subjects('ServiceAccount'), {
    wide: true,
  }),
];

export const webhookColumns: readonly Column[] = [
  nameColumn,
  column('Webhooks', 'Number of webhooks.', (object) => listAt(object, 'webhooks').length, {
    type: 'integer',
  }),
  ageColumn,
];

function paramKind(object: JsonObject): string {
  const kind = objectAt(object, 'spec', 'paramKind');
  if (Object.keys(kind).length === 0) return '<unset>';
  const version = textAt(kind, 'apiVersion');
  return version === '' ? textAt(kind, 'kind') : `${version}/${textAt(kind, 'kind')}`;
}

export const admissionPolicyColumns: readonly Column[] = [
  nameColumn,
  column('Validations', 'Number of rules.', (object) => listAt(object, 'spec', 'validations').length, {
    type: 'integer',
  }),
  column('ParamKind', 'Kind of the parameters.', paramKind),
  ageColumn,
];

export const mutatingPolicyColumns: readonly Column[] = [
  nameColumn,
  column('Mutations', 'Number of mutations.', (object) => listAt(object, 'spec', 'mutations').length, {
    type: 'integer',
  }),
  column('ParamKind', 'Kind of the parameters.', paramKind),
  ageColumn,
];

function paramRef(object: JsonObject): string {
  const ref = objectAt(object, 'spec', 'paramRef');
  if (Object.keys(ref).length === 0) return '<unset>';
  const namespace = textAt(ref, 'namespace');
  const name = textAt(ref, 'name');
  return namespace === '' ? name || '*' : `${namespace}/${name || '*'}`;
}

export const admissionBindingColumns: readonly Column[] = [
  nameColumn,
  column('PolicyName', 'Policy that is bound.', (object) => textAt(object, 'spec', 'policyName')),
  column('ParamRef', 'Parameters of the binding.', paramRef),
  ageColumn,
];
