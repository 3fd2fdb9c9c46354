/** The descriptor of the policy audit guard: all that the rest of Rampart knows about it. */
import { defineGuard } from '../../guard/guard.ts';
import {
  admissionPolicies,
  admissionPolicyGroups,
  clusterAdmissionPolicies,
  clusterAdmissionPolicyGroups,
  kubewardenTypes,
  policyExceptions,
  policyServers,
} from './api.ts';
import { auditCommand } from './commands/audit/command.ts';
import { policyServerCommand } from './commands/policy-server/command.ts';
import { policyCommand } from './commands/policy/command.ts';
import { rights } from './deployment.ts';
import { parsePolicyAuditOptions, policyAuditOptions } from './options.ts';

export const policyAudit = defineGuard({
  name: 'policy-audit',
  summary:
    'reports objects that violate a (Cluster)AdmissionPolicy, and rejects new ones on a single machine',
  resources: [
    clusterAdmissionPolicies,
    admissionPolicies,
    clusterAdmissionPolicyGroups,
    admissionPolicyGroups,
    policyServers,
    policyExceptions,
  ],
  // ValidatingAdmissionPolicies are audited even if Kubewarden's kinds are not served.
  worksWithoutResources: true,
  commands: [
    { create: auditCommand, example: ['audit', 'show which objects violate a policy'] },
    { create: policyCommand },
    { create: policyServerCommand },
  ],
  options: policyAuditOptions,
  parse: parsePolicyAuditOptions,
  rights,
  health: [
    { on: 'cluster', name: 'lease', what: 'the holder of the lease is known' },
    ...kubewardenTypes.map(
      ({ plural, kind }) => ({ on: 'cluster', name: plural, what: `${kind} objects are listed` }) as const,
    ),
    { on: 'cluster', name: 'namespaces', what: 'Namespaces are listed' },
  ],
  admits: true,
  metrics: async () => {
    const { PolicyMetrics } = await import('./cluster/metrics.ts');
    return { cluster: (metrics) => new PolicyMetrics().register(metrics) };
  },
  alertingRules: async () => (await import('./alerting-rules.ts')).alertingRules,
  lines: async () => [(await import('./findings/policy-finding.ts')).policyFindings],
  examine: async () => (await import('./cluster/examine.ts')).examinePolicyAudit,
  status: async () => (await import('./status/section.ts')).policyAuditStatus,
  picture: async () => (await import('./picture/source.ts')).policyAuditPicture,
  ocsf: async () => (await import('./ocsf.ts')).policyOcsf,
  leftovers: async () => (await import('./leftovers.ts')).policyAuditLeftovers,
  cluster: async () => (await import('./cluster/run.ts')).policyAuditCluster,
});
