/**
 * Report of OpenReports (openreports.io/v1alpha1), which took the API of the policy working group over: the same fields, and two more.
 * They are those of its released types (openreports/reports-api, apis/openreports.io/v1alpha1/report_types.go).
 *
 * It is installed where Rampart brings its own API.
 */
import { defineResource, resourceType } from '../kube/crd/resource.ts';
import { integer, list, object, oneOf, optional, string } from '../kube/crd/schema.ts';
import { reportColumns, reportFields } from './policy-reports.ts';
import { reportResults } from './report-entry.ts';

const limits = object({
  maxResults: optional(integer({ description: 'So many results at most.' })),
  statusFilter: optional(list(oneOf(reportResults), { description: 'Results of these kinds alone.' })),
});

const versions = {
  v1alpha1: {
    description: 'What somebody found out about an object.',
    fields: {
      ...reportFields,
      source: optional(string({ description: 'Who found it, where the results do not say.' })),
      configuration: optional(object({ limits }, { description: 'What whoever writes it keeps to.' })),
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

/** The same of objects that are in no namespace. */
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
