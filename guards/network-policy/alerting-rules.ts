import type { AlertingRule } from '../../guard/alerting-rule.ts';

const refusals = (range: string): string =>
  `sum by (namespace, direction) (rate(rampart_network_policy_refused_packets_total[${range}]))`;

export const alertingRules: readonly AlertingRule[] = [
  {
    name: 'RampartNetworkPolicySyncFailing',
    expr: 'increase(rampart_network_policy_sync_failures_total[5m]) > 3',
    for: '5m',
    severity: 'critical',
    summary: '{{ $labels.node }} cannot apply network policies',
    what: 'The kernel rejects changes to the rules again and again.',
    why: 'The rules of before stay in force; new pods and changed policies are not enforced as written.',
    next: 'The log of the agent has what the kernel answers. rampart doctor shows whether nftables works; with iptables, the component network-policy-iptables is needed.',
  },
  {
    name: 'RampartNetworkPolicyDrift',
    expr: 'increase(rampart_network_policy_drift_repaired_total[1h]) > 0',
    severity: 'warning',
    summary: 'Another program changes the network rules of {{ $labels.node }}',
    what: 'Rules, sets or chains of Rampart were changed or removed, and repaired.',
    why: 'Until the repair, traffic was allowed or refused that should not have been.',
    next: 'The log of the agent names what was changed. Look for a second network policy controller, a firewall manager, or iptables-restore without --noflush.',
  },
  {
    name: 'RampartNetworkPolicyProblems',
    expr: 'rampart_network_policy_problems > 0',
    for: '10m',
    severity: 'warning',
    summary: 'Fields of network policies cannot be enforced on {{ $labels.node }}',
    what: 'A NetworkPolicy has fields that cannot be expressed by rules of this node.',
    why: 'What such a field allows is refused.',
    next: 'rampart status names the policy, the field and the reason.',
  },
  {
    name: 'RampartRefusalsSpiking',
    // The average of the last day is absent for a new namespace: the alert then depends on the first condition alone.
    expr: `${refusals('10m')} > 1 unless ${refusals('10m')} <= 10 * ${refusals('1d')}`,
    for: '5m',
    severity: 'info',
    summary: 'Many packets are refused: {{ $labels.direction }} of pods in {{ $labels.namespace }}',
    what: 'More than one packet per second is refused, and more than ten times as many as on average in the last day.',
    why: 'Something scans the network, or a policy or an application was changed and does not fit any more.',
    next: 'rampart network drops -f shows the connections, and which policy refuses them. rampart network explain shows which rule is missing.',
  },
];
