/** What the guard leaves behind. */
import { managedSelector } from '../../guard/managed-by.ts';
import { defineLeftovers } from '../../guard/leftovers.ts';
import { openReportType } from '../../guard/reports/open-reports.ts';
import { policyReportType } from '../../guard/reports/policy-reports.ts';
import { configMaps, roleBindings, secrets } from '../../lib/kube/object/object.ts';
import { bothGroups, names } from './api.ts';
import { agentRole, baselineKeySecret } from './cluster/caches.ts';

export const fileIntegrityLeftovers = defineLeftovers({
  objects: [
    ...bothGroups.map(({ nodeStatuses }) => ({ type: nodeStatuses })),
    ...[policyReportType, openReportType].map((type) => ({ type, labelSelector: managedSelector })),
    ...[names.ownerLabel, names.aideConfLabel].map((labelSelector) => ({ type: configMaps, labelSelector })),
    // The baselines that it signs are deleted with the directory on each node.
    { type: secrets, fieldSelector: `metadata.name=${baselineKeySecret}` },
    { type: roleBindings, fieldSelector: `metadata.name=${agentRole}`, labelSelector: managedSelector },
  ],
});
