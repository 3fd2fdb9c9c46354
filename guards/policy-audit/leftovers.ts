/** Removes the guard's leftovers. Policy servers and all their objects are in Rampart's namespace. */
import { managedSelector } from '../../guard/managed-by.ts';
import { defineLeftovers } from '../../guard/leftovers.ts';
import { clusterOpenReportType, openReportType } from '../../guard/reports/open-reports.ts';
import { clusterPolicyReportType, policyReportType } from '../../guard/reports/policy-reports.ts';
import { kubewardenTypes, policyServerType } from './api.ts';
import { serverLabel } from './server-label.ts';
import { mutatingType, validatingType } from './cluster/webhooks.ts';
import { formerFinalizers } from './policies/policy-set.ts';
import { ourReports } from './reports/report.ts';

const ourWebhooks = `${serverLabel},${managedSelector}`;

export const policyAuditLeftovers = defineLeftovers({
  webhooks: [validatingType, mutatingType].map((type) => ({ type, labelSelector: ourWebhooks })),
  finalizers: [...kubewardenTypes, policyServerType].map((type) => ({ type, finalizers: formerFinalizers })),
  objects: [policyReportType, clusterPolicyReportType, openReportType, clusterOpenReportType].map((type) => ({
    type,
    labelSelector: ourReports,
  })),
});
