import type { AlertingRule } from '../../guard/alerting-rule.ts';

export const alertingRules: readonly AlertingRule[] = [
  {
    name: 'RampartAccessesLost',
    expr: 'increase(rampart_file_access_lost_total[10m]) > 0',
    severity: 'warning',
    summary: '{{ $labels.node }} loses accesses to files: {{ $labels.reason }}',
    what: 'Accesses to watched files happened that no finding reports.',
    why: 'ring_full: there were more at a time than the agent reads. no_return: the kernel did not tell how a call ended. consumer: the agent did not take them.',
    next: 'rampart alerts shows which file is so busy: narrow the policy, or exclude the container that uses the file. Give the agent more CPU if it is throttled.',
  },
  {
    name: 'RampartTrapsNotWatched',
    expr: 'rampart_file_access_refused > 0',
    for: '10m',
    severity: 'critical',
    summary: '{{ $labels.node }} has no room for all files of its KivePolicies',
    what: 'KivePolicies name more files in containers of the node than the sensor can watch.',
    why: 'Accesses to the remaining ones are not reported.',
    next: 'Narrow the policies, by container or path; rampart_file_access_capacity is how many files there is room for.',
  },
  {
    name: 'RampartCallbackStuck',
    expr: 'rampart_callback_queue_oldest_seconds > 600',
    for: '5m',
    severity: 'warning',
    summary: '{{ $labels.callback }} has taken no findings of {{ $labels.node }} for more than 10 minutes',
    what: 'Findings wait in the queue on disk of a callback.',
    why: 'The receiver does not answer, or refuses them. When the queue is full, new ones are not queued any more.',
    next: 'The log of the agent has what the receiver answers. Check its URL, certificate and token; nothing is lost as long as the queue has room.',
  },
  {
    name: 'RampartCallbackLost',
    expr: 'increase(rampart_callback_refused_total[10m]) > 0 or increase(rampart_callback_dropped_total[10m]) > 0',
    severity: 'warning',
    summary: '{{ $labels.node }} does not deliver findings to callbacks: {{ $labels.reason }}',
    what: 'Findings for a callback were not queued, or were dropped from its queue.',
    why: 'The receiver never gets them; stdout has them. The label `reason` says why: the callback is not allowed, the queue or the disk is full, or the receiver rejected them for good.',
    next: 'Allow the address with --allow-callback, mend the receiver, or make room on the disk of the node.',
  },
];
