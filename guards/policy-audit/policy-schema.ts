/**
 * The common schemas of Kubewarden's policies: fields, defaults and enums are those of its released definitions
 * (kubewarden-controller, api/policies/v1). Rules in the CRD reject the same objects as Kubewarden's webhook,
 * which is not needed here.
 */
import { conditionList } from '../../lib/kube/crd/condition-list.ts';
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
} from '../../lib/kube/crd/schema.ts';

/** Limit of lists that are used by rules in the CRD: the API server estimates the cost of a rule from it. */
const MAX_RULES = 64;
const MAX_NAMES = 128;
const MAX_NAME = 253;

const names = (description: string) =>
  list(string({ minLength: 1, maxLength: MAX_NAME }), { description, minItems: 1, maxItems: MAX_NAMES });

/** Only a group may be '', which is the core group. */
const groupNames = list(string({ maxLength: MAX_NAME }), {
  description: "API groups; '' is the core group, '*' all.",
  maxItems: MAX_NAMES,
});

const operations = list(oneOf(['CREATE', 'UPDATE', 'DELETE', 'CONNECT', '*']), {
  description: 'The operations on objects. An audit treats each object as if it were created.',
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

const clusterRule = object('The requests to evaluate.', ruleFields);

const namespacedRule = object(ruleFields, {
  description: 'The requests to evaluate.',
  rules: [
    rule(
      "!(has(self.apiGroups) && '*' in self.apiGroups && ('*' in self.resources || '*/*' in self.resources))",
      'apiGroups and resources cannot both use wildcards in AdmissionPolicy and AdmissionPolicyGroup',
      { reason: 'FieldValueForbidden' },
    ),
    rule(
      "!(has(self.apiGroups) && self.apiGroups.exists(one, one in ['*', 'wgpolicyk8s.io', 'openreports.io']) && self.resources.exists(one, one == '*' || one == '*/*' || one == 'policyreports' || one == 'reports' || one.startsWith('policyreports/') || one.startsWith('reports/')))",
      'reports cannot be targeted by AdmissionPolicy and AdmissionPolicyGroup',
      { reason: 'FieldValueForbidden' },
    ),
  ],
});

const matchCondition = object({
  name: string('Unique in the policy.', {
    minLength: 1,
    maxLength: 316,
    // A qualified name: webhooks accept no other names.
    pattern: '^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$',
  }),
  expression: string('CEL over object, oldObject, request, authorizer and namespaceObject: bool.', {
    minLength: 1,
    maxLength: 10_240,
  }),
});

export const selectorSchema = (description: string) =>
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
    apiVersion: string('v1, apps/v1.', { minLength: 1 }),
    kind: string('Pod, Deployment.', { minLength: 1 }),
  }),
  { description: 'The kinds that the policy may query from the cluster.' },
);

const settings = optional(
  nullable(anyObject({ description: 'The settings of the policy; their form depends on the policy.' })),
);
const moduleField = string(
  'registry://, https://, http:// or file://; without a scheme registry://. `cel-policy` runs without its module.',
  { minLength: 1, maxLength: 2048 },
);

const seconds = (description: string) => integer(description, { format: 'int32', minimum: 2, maximum: 30 });
const timeoutEvalSeconds = optional(seconds('The time limit of one evaluation; 2 by default.'));

const common = {
  policyServer: string('The PolicyServer that serves it.', { default: 'default' }),
  mode: oneOf(['protect', 'monitor'], {
    description:
      'protect: requests that the policy rejects are denied. monitor: they are allowed, counted and reported.',
    default: 'protect',
  }),
  failurePolicy: optional(
    oneOf(['Fail', 'Ignore'], {
      description: 'What happens when the policy cannot be evaluated; Fail by default.',
    }),
  ),
  backgroundAudit: boolean('Whether existing objects are audited.', { default: true }),
  matchPolicy: optional(
    oneOf(['Exact', 'Equivalent'], {
      description:
        'Whether rules also match other versions of the kinds that they name; Equivalent by default.',
    }),
  ),
  matchConditions: optional(
    list(matchCondition, {
      description: 'All must be true for the policy to be evaluated.',
      maxItems: 64,
      mapKeys: ['name'],
    }),
  ),
  objectSelector: optional(selectorSchema('Selects objects by their labels; all by default.')),
  sideEffects: optional(
    oneOf(['None', 'NoneOnDryRun', 'Some', 'Unknown'], {
      description: 'The side effects of the policy; with Some and Unknown, dry runs are rejected.',
    }),
  ),
  timeoutSeconds: integer('How long a request waits for the policy.', {
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
  mutating: boolean('Whether the policy may change objects.'),
  timeoutEvalSeconds,
  message: optional(string('Replaces the message of the policy, which becomes the cause.')),
};

const member = { module: moduleField, settings, timeoutEvalSeconds };

const group = {
  ...common,
  expression: string(
    'Combines the members, each called as a function by its name: `signed() && (trusted() || !outside())`.',
    { minLength: 1, maxLength: 10_240 },
  ),
  message: string('The message when the group rejects a request.', { minLength: 1 }),
  mutating: optional(boolean('Always false.')),
};

const namespaceSelector = optional(
  selectorSchema('Selects namespaces by their labels: those of objects, and Namespace objects themselves.'),
);

const allowInsideAdmissionControllerNamespace = optional(
  boolean(
    'Whether it also applies to writes in the namespace of the policy servers, rampart-system, which it does not otherwise. Such a policy can keep Rampart from starting.',
  ),
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

/** Members run one after the other, so the sum of their time limits counts. */
const membersFit = rule(
  'self.policies.map(name, has(self.policies[name].timeoutEvalSeconds) ? self.policies[name].timeoutEvalSeconds : 0).sum() <= self.timeoutSeconds',
  "the sum of all members' timeoutEvalSeconds cannot be greater than timeoutSeconds",
  { fieldPath: '.policies' },
);

const rulesOf = <S extends typeof clusterRule>(one: S) =>
  list(one, {
    description: 'The requests that the policy evaluates: any that one of these rules matches.',
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
    allowInsideAdmissionControllerNamespace,
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
    allowInsideAdmissionControllerNamespace,
    policies: mapOf(
      object({ ...member, contextAwareResources: optional(contextAwareResources) }),
      membersOptions,
    ),
  },
  { rules: [...transitions, validating, memberNames, membersFit] },
);
export const groupSpec = object(
  { ...group, rules: rulesOf(namespacedRule), policies: mapOf(object(member), membersOptions) },
  { rules: [...transitions, validating, memberNames, membersFit] },
);

const policyStatuses = ['unscheduled', 'scheduled', 'pending', 'active'] as const;
export type PolicyStatusName = (typeof policyStatuses)[number];

export const policyStatus = object({
  policyStatus: oneOf(policyStatuses, {
    description:
      'unscheduled: it has no PolicyServer. scheduled: its PolicyServer does not exist. pending: it is not evaluated yet; the conditions say why. active: it is evaluated.',
  }),
  mode: optional(
    oneOf(['protect', 'monitor', 'unknown'], { description: 'The mode in which it is evaluated.' }),
  ),
  conditions: optional(conditionList()),
});
