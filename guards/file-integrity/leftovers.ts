/** What this guard leaves behind. */
import { defineLeftovers } from '../../guard/leftovers.ts';
import { openReportType } from '../../guard/reports/open-reports.ts';
import { policyReportType } from '../../guard/reports/policy-reports.ts';
import { managedByLabel } from '../../guard/reports/report-fields.ts';
import { managedBy } from '../../guard/reports/report-object.ts';
import { configMaps, roleBindings, secrets } from '../../lib/kube/object/object.ts';
import { bothGroups, names } from './api.ts';
import { agentRole, baselineKeySecret } from './cluster/caches.ts';

const ours = `${managedByLabel}=${managedBy}`;

export const fileIntegrityLeftovers = defineLeftovers({
  objects: [
    ...bothGroups.map(({ nodeStatuses }) => ({ type: nodeStatuses })),
    ...[policyReportType, openReportType].map((type) => ({ type, labelSelector: ours })),
    ...[names.ownerLabel, names.aideConfLabel].map((labelSelector) => ({ type: configMaps, labelSelector })),
    // The baselines that it signs go with the directory on each node.
    { type: secrets, fieldSelector: `metadata.name=${baselineKeySecret}` },
    { type: roleBindings, fieldSelector: `metadata.name=${agentRole}`, labelSelector: ours },
  ],
});
