import type { ResourceType } from '../../lib/kube/object/object.ts';
import { clusterOpenReportType, openReportType } from './open-reports.ts';
import { clusterPolicyReportType, policyReportType } from './policy-reports.ts';
import type { ReportKind } from './report-entry.ts';

/** For each kind of report: the resource for objects in a namespace, and the one for cluster-scoped objects. */
export const reportTypes: Readonly<
  Record<ReportKind, { readonly namespaced: ResourceType; readonly cluster: ResourceType }>
> = {
  policyreport: { namespaced: policyReportType, cluster: clusterPolicyReportType },
  openreports: { namespaced: openReportType, cluster: clusterOpenReportType },
};
