/** Prometheus alerting rules for the agent, the operator and standalone, whichever guards they run. */
import type { AlertingRule } from '../guard/alerting-rule.ts';

/** The names of the scrape jobs in deploy/monitoring/ and docs/monitoring.md. */
const agents = 'job=~"rampart-(agent|standalone)"';

export const alertingRules: readonly AlertingRule[] = [
  {
    name: 'RampartAgentDown',
    expr: `up{${agents}} == 0 or absent(up{${agents}})`,
    for: '5m',
    severity: 'critical',
    summary: 'The agent {{ $labels.node }} {{ $labels.instance }} does not answer',
    what: 'Prometheus cannot scrape the agent of a node, or finds no agent at all.',
    why: 'Accesses and changes of files are not reported while it is away. Network rules and eBPF programs stay in force, but do not follow changes.',
    next: 'rampart status names the node. kubectl -n rampart-system get pods -o wide, then the log of the pod. Check that Prometheus may reach port 9464.',
  },
  {
    name: 'RampartAgentNotReady',
    expr: 'rampart_agent_ready == 0',
    for: '10m',
    severity: 'warning',
    summary: 'The agent on {{ $labels.node }} is not ready',
    what: 'The agent runs, but does not know the state of its node yet, or cannot serve one of its guards.',
    why: 'Part of the node is not guarded. Usual causes: the API or the container runtime does not answer, or the kernel lacks something.',
    next: 'Read /readyz of the agent: it has a line with the reason for each part. rampart doctor on the node shows what the kernel supports.',
  },
  {
    name: 'RampartGuardNotRunning',
    expr: 'rampart_guard_running == 0',
    for: '10m',
    severity: 'critical',
    summary: '{{ $labels.guard }} does not run ({{ $labels.part }} part) on {{ $labels.node }}',
    what: 'A guard that was switched on waits for something or cannot run here.',
    why: 'What its objects ask for is not guarded there. Usual causes: its CustomResourceDefinitions are not installed, a right is missing, or the kernel refuses it.',
    next: 'rampart status shows the reason; the log of the pod has it too. Install what is missing, or leave the guard out with --guards.',
  },
  {
    name: 'RampartOperatorDown',
    expr: 'count(up{job="rampart-agent"}) > 0 unless count(up{job="rampart-operator"} == 1) > 0',
    for: '5m',
    severity: 'critical',
    summary: 'No operator of Rampart answers',
    what: 'Prometheus scrapes agents, but no operator.',
    why: 'Nothing is audited, statuses and reports get old, policy servers are not looked after, and what gone nodes left behind stays.',
    next: 'kubectl -n rampart-system get deployment/rampart-operator, then the log of its pods.',
  },
  {
    name: 'RampartFindingsDropped',
    expr: 'increase(rampart_alert_lines_dropped_total[10m]) > 0',
    severity: 'warning',
    summary: '{{ $labels.node }} drops findings',
    what: 'Lines of findings were dropped, because stdout is too slow or closed.',
    why: 'Whoever collects the log of the pod misses them. Callbacks and reports have them all the same.',
    next: 'Look for what slows the reader of the log down: a full disk of the node, a collector that does not keep up. Make policies narrower if they report more than you read.',
  },
  {
    name: 'RampartOtlpStuck',
    expr: 'rampart_otlp_queue_oldest_seconds > 600',
    for: '5m',
    severity: 'warning',
    summary:
      'The OTLP receiver has taken no findings of {{ $labels.job }} on {{ $labels.node }} for more than 10 minutes',
    what: 'Findings wait in the queue for --otlp-endpoint.',
    why: 'The receiver does not answer, or refuses requests for now. When the queue is full, new findings are not queued any more.',
    next: 'The log of the process has what the receiver answers. Check its URL, certificate and headers.',
  },
  {
    name: 'RampartOtlpLost',
    expr: 'increase(rampart_otlp_refused_total[10m]) > 0 or increase(rampart_otlp_dropped_total[10m]) > 0',
    severity: 'warning',
    summary:
      'The OTLP receiver does not get all findings of {{ $labels.job }} on {{ $labels.node }}: {{ $labels.reason }}',
    what: 'Findings were not queued for --otlp-endpoint, or were dropped from its queue.',
    why: 'The receiver never gets them; stdout has them. The label `reason` says why.',
    next: 'Mend the receiver if it rejects them, or make room on the disk of the node.',
  },
];
