import type { AlertingRule } from '../../guard/alerting-rule.ts';

const interval = 'max(rampart_policy_audit_interval_seconds)';

export const alertingRules: readonly AlertingRule[] = [
  {
    name: 'RampartAuditMissed',
    expr: 'increase(rampart_policy_audit_missed_total[1h]) > 0',
    severity: 'warning',
    summary: 'Audits missed changed objects',
    what: 'Objects had changed that no audit had looked at before the last full pass.',
    why: 'Their reports were older than the objects until then. There should be none.',
    next: 'The log of the operator has errors of the API at that time. Report it as a fault if there are none.',
  },
  {
    name: 'RampartAuditStale',
    expr:
      `time() - max(rampart_policy_last_audit_pass_timestamp_seconds) > 2 * ${interval} + 3600 ` +
      `or time() - max(process_start_time_seconds and rampart_policy_audit_interval_seconds) > 2 * ${interval} + 3600 ` +
      'unless max(rampart_policy_last_audit_pass_timestamp_seconds)',
    for: '5m',
    severity: 'warning',
    summary: 'No audit of all objects has ended for too long',
    what: 'The last full pass is older than twice the interval and an hour, or the operator has run that long without one.',
    why: 'Reports may be old, and those of deleted objects stay. Usual causes: the API does not list a kind, reports cannot be written, or policies are slow.',
    next: 'rampart status shows the progress of the pass and what is not audited. The log of the operator has the errors.',
  },
  {
    name: 'RampartPolicyErrors',
    // Uses a gauge, not the growth of a counter: an object is evaluated once, and a series that starts above 0 has not grown.
    expr: 'rampart_policy_objects{result="error"} > 0',
    for: '15m',
    severity: 'warning',
    summary: 'Policies cannot be evaluated for some objects',
    what: 'Audits ended with an error for some objects.',
    why: 'Whether these objects follow the policy is not known; for writes, failurePolicy decides.',
    next: 'kubectl get policyreports -A shows results with the word error and their reason: a time limit, a missing right of the PolicyServer, a registry that does not answer.',
  },
  {
    name: 'RampartPolicyNotActive',
    expr: 'kubewarden_policy_total{policy_status!="active"} == 1',
    for: '15m',
    severity: 'warning',
    summary: 'Policy {{ $labels.name }} is not active',
    what: 'A policy is not enforced as written.',
    why: 'Its module or settings cannot be loaded, or no PolicyServer runs it. If it was active before, its previous version stays in force.',
    next: 'kubectl describe the policy: its conditions have the reason.',
  },
  {
    name: 'RampartWebhooksWithoutServer',
    expr:
      'rampart_policy_server_ready_pods == 0 and on (policy_server) ' +
      'count by (policy_server) (kubewarden_policy_total{policy_status="active"}) > 0',
    for: '2m',
    severity: 'critical',
    summary: 'PolicyServer {{ $labels.policy_server }} has webhooks, and no pod that answers them',
    what: 'No pod of a PolicyServer is ready, and the API server calls it for writes.',
    why: 'With failurePolicy Fail, all these writes are refused; with Ignore, none is checked.',
    next: 'kubectl -n rampart-system get pods -l kubewarden/policy-server, then their log. To let writes through meanwhile, delete the PolicyServer: its webhooks are removed first.',
  },
];
