import type { AlertingRule } from '../../guard/alerting-rule.ts';

export const alertingRules: readonly AlertingRule[] = [
  {
    name: 'RampartProgramNotLoaded',
    expr: 'rampart_bpf_programs_not_loaded > 0',
    for: '10m',
    severity: 'critical',
    summary: 'eBPF programs do not run on {{ $labels.node }}',
    what: 'Programs that objects ask for on this node do not run.',
    why: 'The image cannot be fetched, the kernel does not accept the program, or there is nothing to attach it to.',
    next: 'rampart status names the object and the reason. rampart bpf checks whether the kernel accepts an image.',
  },
  {
    name: 'RampartProgramOutdated',
    expr: 'rampart_bpf_programs_outdated > 0',
    for: '10m',
    severity: 'warning',
    summary: '{{ $labels.node }} runs eBPF programs in an earlier version than requested',
    what: 'A new version of a program cannot run, so the last one that did stays attached.',
    why: 'A tag or file has changed to something that does not load, or the object was edited and cannot be applied.',
    next: 'rampart status names the object and the reason. Correct the object, the file or the image.',
  },
  {
    name: 'RampartProgramDrift',
    expr: 'increase(rampart_bpf_programs_drift_repaired_total[1h]) > 0',
    severity: 'warning',
    summary: 'Another program changes the eBPF programs of {{ $labels.node }}',
    what: 'Programs, links or pins of Rampart were removed or replaced, and repaired.',
    why: 'Until the repair, packets and calls passed without them.',
    next: 'The log of the agent names what was changed. Look for another loader of eBPF programs on the node.',
  },
  {
    name: 'RampartProgramPassesFailing',
    expr: 'increase(rampart_bpf_programs_pass_failures_total[5m]) > 3',
    for: '5m',
    severity: 'critical',
    summary: '{{ $labels.node }} cannot apply changes of eBPF programs',
    what: 'The reconciliation of all programs of the node fails again and again.',
    why: 'Programs that run go on; new ones are not loaded, and deleted ones not removed.',
    next: 'The log of the agent has the error. rampart doctor shows what the kernel supports.',
  },
];
