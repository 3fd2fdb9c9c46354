/**
 * What Kubewarden's policies have in common, as schemas: fields, defaults and enums are those of its released definitions
 * (kubewarden-controller, api/policies/v1). What its webhook refuses is refused here by rules of the definition, so that it is
 * refused also where no webhook runs.
 */
import { conditionList } from '../../shared/kube/crd/condition-list.ts';
import { ageColumn, type PrinterColumn } from '../../shared/kube/crd/resource.ts';
import {
  anyObject,
  boolean,
  integer,
  list,
  mapOf,
  nullable,
  object,
  oneOf,
  optional,
  type Rule,
  rule,
  string,
} from '../../shared/kube/crd/schema.ts';

/** Lists that rules look at are bounded: the API server estimates by it what a rule can cost. */
const MAX_RULES = 64;
const MAX_NAMES = 128;
const MAX_NAME = 253;

const names = (description: string) =>
  list(string({ minLength: 1, maxLength: MAX_NAME }), { description, maxItems: MAX_NAMES });

/** Groups alone may be '', which is the core group. */
const groupNames = list(string({ maxLength: MAX_NAME }), {
  description: "API groups; '' is the core group, '*' all.",
  maxItems: MAX_NAMES,
});

const operations = list(oneOf(['CREATE', 'UPDATE', 'DELETE', 'CONNECT', '*']), {
  description: 'What is done to objects. An audit takes each object as one that is created.',
  minItems: 1,
  maxItems: 8,
});

const ruleFields = {
  apiGroups: optional(groupNames),
  apiVersions: names("API versions; '*' is all."),
  operations,
  resources: names(
    "Plurals, with subresources as 'pods/log'; '*' is all without subresources, '*/*' all with them.",
  ),
  scope: optional(
    oneOf(['Cluster', 'Namespaced', '*'], {
      description: 'Whether objects are in a namespace; * by default.',
    }),
  ),
};

const clusterRule = object(ruleFields, { description: 'Which requests.' });

const namespacedRule = object(ruleFields, {
  description: 'Which requests.',
  rules: [
    rule(
      "!(has(self.apiGroups) && '*' in self.apiGroups && ('*' in self.resources || '*/*' in self.resources))",
      'apiGroups and resources cannot both use wildcards in AdmissionPolicy and AdmissionPolicyGroup',
      { reason: 'FieldValueForbidden' },
    ),
    rule(
      "!(has(self.apiGroups) && ('wgpolicyk8s.io' in self.apiGroups || 'openreports.io' in self.apiGroups) && self.resources.exists(one, one == '*' || one == '*/*' || one == 'policyreports' || one == 'reports' || one.startsWith('policyreports/') || one.startsWith('reports/')))",
      'reports cannot be targeted by AdmissionPolicy and AdmissionPolicyGroup',
      { reason: 'FieldValueForbidden' },
    ),
  ],
});

const matchCondition = object({
  name: string({ description: 'Unique in the policy.', minLength: 1, maxLength: 316 }),
  expression: string({
    description: 'CEL over object, oldObject, request, authorizer and namespaceObject: bool.',
    minLength: 1,
    maxLength: 10_240,
  }),
});

const selectorSchema = (description: string) =>
  object(
    {
      matchLabels: optional(mapOf(string())),
      matchExpressions: optional(
        list(
          object({
            key: string(),
            operator: oneOf(['In', 'NotIn', 'Exists', 'DoesNotExist']),
            values: optional(list(string())),
          }),
        ),
      ),
    },
    { description, atomic: true },
  );

const contextAwareResources = list(
  object({
    apiVersion: string({ description: 'v1, apps/v1.', minLength: 1 }),
    kind: string({ description: 'Pod, Deployment.', minLength: 1 }),
  }),
  { description: 'The kinds that the policy may ask the cluster for.' },
);

const settings = optional(nullable(anyObject({ description: 'What the policy itself understands.' })));
const moduleField = string({
  description:
    'registry://, https://, http:// or file://; without a scheme registry://. `cel-policy` runs without its module.',
  minLength: 1,
  maxLength: 2048,
});

const seconds = (description: string) => integer({ description, format: 'int32', minimum: 2, maximum: 30 });
const timeoutEvalSeconds = optional(seconds('How long one evaluation may take; 2 by default.'));

const common = {
  policyServer: string({ description: 'The PolicyServer that serves it.', default: 'default' }),
  mode: oneOf(['protect', 'monitor'], {
    description:
      'protect: what the policy refuses is refused. monitor: it is let through, counted and reported.',
    default: 'protect',
  }),
  failurePolicy: optional(
    oneOf(['Fail', 'Ignore'], {
      description: 'What happens when the policy cannot be asked; Fail by default.',
    }),
  ),
  backgroundAudit: boolean({ description: 'Whether objects that are there are audited.', default: true }),
  matchPolicy: optional(
    oneOf(['Exact', 'Equivalent'], {
      description:
        'Whether rules hold for other versions of the kinds that they name; Equivalent by default.',
    }),
  ),
  matchConditions: optional(
    list(matchCondition, {
      description: 'All must be true for the policy to be asked.',
      maxItems: 64,
      mapKeys: ['name'],
    }),
  ),
  objectSelector: optional(selectorSchema('Objects by their labels; all by default.')),
  sideEffects: optional(
    oneOf(['None', 'NoneOnDryRun', 'Some', 'Unknown'], {
      description: 'Of the policy; with Some and Unknown dry runs are refused.',
    }),
  ),
  timeoutSeconds: integer({
    description: 'How long a request waits for the policy.',
    format: 'int32',
    minimum: 2,
    maximum: 30,
    default: 10,
  }),
};

const single = {
  ...common,
  module: moduleField,
  settings,
  mutating: boolean({ description: 'Whether the policy may change objects.' }),
  timeoutEvalSeconds,
  message: optional(string({ description: 'Replaces the message of the policy, which becomes its cause.' })),
};

const member = { module: moduleField, settings, timeoutEvalSeconds };

const group = {
  ...common,
  expression: string({
    description: 'Over the members, each a function of its name: `signed() && (trusted() || !outside())`.',
    minLength: 1,
    maxLength: 10_240,
  }),
  message: string({ description: 'Told when the group refuses.', minLength: 1 }),
  mutating: optional(boolean({ description: 'Always false.' })),
};

const namespaceSelector = optional(
  selectorSchema('Namespaces by their labels: those that objects are in, and Namespaces themselves.'),
);

const transitions: readonly Rule[] = [
  rule(
    "!(oldSelf.mode == 'protect' && self.mode == 'monitor')",
    'field cannot transition from protect to monitor. Recreate instead.',
    { fieldPath: '.mode', reason: 'FieldValueForbidden' },
  ),
  rule('self.policyServer == oldSelf.policyServer', 'the field is immutable', {
    fieldPath: '.policyServer',
    reason: 'FieldValueForbidden',
  }),
];
const evaluationFits = rule(
  '!has(self.timeoutEvalSeconds) || self.timeoutEvalSeconds <= self.timeoutSeconds',
  'timeoutEvalSeconds cannot be greater than timeoutSeconds',
  { fieldPath: '.timeoutEvalSeconds' },
);
const validating = rule('!has(self.mutating) || !self.mutating', 'a group cannot be mutating', {
  fieldPath: '.mutating',
  reason: 'FieldValueForbidden',
});
const memberNames = rule(
  "self.policies.all(name, name.matches('^[_a-zA-Z][_a-zA-Z0-9]*$') && !(name in ['true', 'false', 'null', 'in', 'as', 'break', 'const', 'continue', 'else', 'for', 'function', 'if', 'import', 'let', 'loop', 'package', 'namespace', 'return', 'var', 'void', 'while']))",
  'policy group member name is invalid',
  { fieldPath: '.policies' },
);

const rulesOf = <S extends typeof clusterRule>(one: S) =>
  list(one, {
    description: 'Requests for which the policy is asked: any of these.',
    minItems: 1,
    maxItems: MAX_RULES,
  });

const membersOptions = { description: 'The members by name.', minProperties: 1, maxProperties: 64 } as const;

export const clusterPolicySpec = object(
  {
    ...single,
    rules: rulesOf(clusterRule),
    namespaceSelector,
    contextAwareResources: optional(contextAwareResources),
  },
  { rules: [...transitions, evaluationFits] },
);
export const policySpec = object(
  { ...single, rules: rulesOf(namespacedRule) },
  { rules: [...transitions, evaluationFits] },
);
export const clusterGroupSpec = object(
  {
    ...group,
    rules: rulesOf(clusterRule),
    namespaceSelector,
    policies: mapOf(
      object({ ...member, contextAwareResources: optional(contextAwareResources) }),
      membersOptions,
    ),
  },
  { rules: [...transitions, validating, memberNames] },
);
export const groupSpec = object(
  { ...group, rules: rulesOf(namespacedRule), policies: mapOf(object(member), membersOptions) },
  { rules: [...transitions, validating, memberNames] },
);

const policyStatuses = ['unscheduled', 'scheduled', 'pending', 'active'] as const;
export type PolicyStatusName = (typeof policyStatuses)[number];

export const policyStatus = object({
  policyStatus: oneOf(policyStatuses, {
    description:
      'unscheduled: it has no PolicyServer. scheduled: its PolicyServer does not exist. pending: it is not evaluated yet; the conditions say why. active: it is evaluated.',
  }),
  mode: optional(oneOf(['protect', 'monitor', 'unknown'], { description: 'The mode that it is asked in.' })),
  conditions: optional(conditionList()),
});

const annotation = (name: string, key: string): PrinterColumn => ({
  name,
  type: 'string',
  jsonPath: `.metadata.annotations['io\\.kubewarden\\.policy\\.${key}']`,
  priority: 1,
});

export const policyColumns: readonly PrinterColumn[] = [
  {
    name: 'Policy Server',
    type: 'string',
    jsonPath: '.spec.policyServer',
    description: 'Bound to Policy Server',
  },
  {
    name: 'Mutating',
    type: 'boolean',
    jsonPath: '.spec.mutating',
    description: 'Whether the policy is mutating',
  },
  {
    name: 'BackgroundAudit',
    type: 'boolean',
    jsonPath: '.spec.backgroundAudit',
    description: 'Whether the policy is used in audit checks',
  },
  { name: 'Mode', type: 'string', jsonPath: '.spec.mode', description: 'Policy deployment mode' },
  {
    name: 'Observed mode',
    type: 'string',
    jsonPath: '.status.mode',
    description: 'Policy deployment mode observed on the assigned Policy Server',
  },
  { name: 'Status', type: 'string', jsonPath: '.status.policyStatus', description: 'Status of the policy' },
  ageColumn,
  annotation('Severity', 'severity'),
  annotation('Category', 'category'),
];
