/**
 * PolicyReport of the policy working group (wgpolicyk8s.io/v1alpha2), as consumers such as Policy Reporter read it. The fields are those of
 * its released definition (kubernetes-sigs/wg-policy-prototypes, policy-report/crd), with the five severities that Kyverno's and
 * Kubewarden's copies of the definition have.
 *
 * It is installed where Rampart brings its own API, and by the component deploy/policy-reports/ in clusters without it. An existing
 * definition is never touched.
 */
import {
  ageColumn,
  defineResource,
  type ObjectOf,
  type PrinterColumn,
  resourceType,
} from '../../lib/kube/crd/resource.ts';
import { boolean, integer, list, mapOf, object, oneOf, optional, string } from '../../lib/kube/crd/schema.ts';
import { reportResults } from './report-entry.ts';

const reference = object(
  {
    apiVersion: optional(string()),
    kind: optional(string()),
    name: optional(string()),
    namespace: optional(string()),
    uid: optional(string()),
    resourceVersion: optional(string()),
    fieldPath: optional(string()),
  },
  { atomic: true, description: 'A Kubernetes object.' },
);

const selector = object(
  {
    matchLabels: optional(mapOf(string())),
    matchExpressions: optional(
      list(object({ key: string(), operator: string(), values: optional(list(string())) })),
    ),
  },
  { description: 'Selects objects by their labels.' },
);

const result = object({
  source: optional(string({ description: 'The source of the result.' })),
  policy: string({ description: 'The policy of the result.' }),
  rule: optional(string({ description: 'The rule of the policy.' })),
  category: optional(string({ description: 'The kind of policy.' })),
  severity: optional(oneOf(['critical', 'high', 'medium', 'low', 'info'])),
  result: optional(oneOf(reportResults, { description: 'The outcome.' })),
  scored: optional(boolean({ description: 'Whether the result is scored.' })),
  message: optional(string({ description: 'A human-readable message.' })),
  timestamp: optional(
    object(
      { seconds: integer({ format: 'int64' }), nanos: integer({ format: 'int32' }) },
      { description: 'When the result was obtained.' },
    ),
  ),
  properties: optional(mapOf(string(), { description: 'Additional properties.' })),
  resources: optional(
    list(reference, { description: 'The objects of the result; default: the scope of the report.' }),
  ),
  resourceSelector: optional(selector),
});

const count = (description: string) => optional(integer({ description }));

/** The fields that OpenReports has in common with it (open-reports.ts). */
export const reportFields = {
  scope: optional(reference),
  scopeSelector: optional(selector),
  summary: optional(
    object(
      {
        pass: count('The number of passed policies.'),
        fail: count('The number of failed policies.'),
        warn: count('The number of failed policies that are not scored.'),
        error: count('The number of policies that could not be evaluated.'),
        skip: count('The number of skipped policies.'),
      },
      { description: 'The number of results by outcome.' },
    ),
  ),
  results: optional(list(result, { description: 'The results.' })),
} as const;

export const reportColumns: readonly PrinterColumn[] = [
  { name: 'Kind', type: 'string', jsonPath: '.scope.kind', priority: 1 },
  { name: 'Name', type: 'string', jsonPath: '.scope.name', priority: 1 },
  { name: 'Pass', type: 'integer', jsonPath: '.summary.pass' },
  { name: 'Fail', type: 'integer', jsonPath: '.summary.fail' },
  { name: 'Warn', type: 'integer', jsonPath: '.summary.warn' },
  { name: 'Error', type: 'integer', jsonPath: '.summary.error' },
  { name: 'Skip', type: 'integer', jsonPath: '.summary.skip' },
  ageColumn,
];

const versions = {
  v1alpha2: {
    description: 'The results of policies for an object.',
    fields: reportFields,
    columns: reportColumns,
  },
} as const;

export const policyReports = defineResource({
  group: 'wgpolicyk8s.io',
  kind: 'PolicyReport',
  plural: 'policyreports',
  scope: 'Namespaced',
  shortNames: ['polr'],
  versions,
});

/** Reports about cluster-scoped objects. */
export const clusterPolicyReports = defineResource({
  group: 'wgpolicyk8s.io',
  kind: 'ClusterPolicyReport',
  plural: 'clusterpolicyreports',
  scope: 'Cluster',
  shortNames: ['cpolr'],
  versions,
});

export type PolicyReport = ObjectOf<typeof policyReports>;
export const policyReportType = resourceType(policyReports, 'v1alpha2');
export const clusterPolicyReportType = resourceType(clusterPolicyReports, 'v1alpha2');
