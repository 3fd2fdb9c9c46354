/**
 * The Report of OpenReports (openreports.io/v1alpha1), the successor of the policy working group's API: the same fields, and two more. The
 * fields are those of its released types (openreports/reports-api, apis/openreports.io/v1alpha1/report_types.go).
 *
 * It is installed where Rampart brings its own API.
 */
import { defineResource, resourceType } from '../../lib/kube/crd/resource.ts';
import { integer, list, object, oneOf, optional, string } from '../../lib/kube/crd/schema.ts';
import { reportColumns, reportFields } from './policy-reports.ts';
import { reportResults } from './report-entry.ts';

const limits = object({
  maxResults: optional(integer({ description: 'The maximum number of results.' })),
  statusFilter: optional(list(oneOf(reportResults), { description: 'Include only results of these kinds.' })),
});

const versions = {
  v1alpha1: {
    description: 'Results of checks of an object.',
    fields: {
      ...reportFields,
      source: optional(string({ description: 'The source of results that name none.' })),
      configuration: optional(object({ limits }, { description: 'Settings of the writer of the report.' })),
    },
    columns: reportColumns,
  },
} as const;

export const openReports = defineResource({
  group: 'openreports.io',
  kind: 'Report',
  plural: 'reports',
  scope: 'Namespaced',
  shortNames: ['reps'],
  versions,
});

/** Reports about cluster-scoped objects. */
export const clusterOpenReports = defineResource({
  group: 'openreports.io',
  kind: 'ClusterReport',
  plural: 'clusterreports',
  scope: 'Cluster',
  shortNames: ['creps'],
  versions,
});

export const openReportType = resourceType(openReports, 'v1alpha1');
export const clusterOpenReportType = resourceType(clusterOpenReports, 'v1alpha1');
