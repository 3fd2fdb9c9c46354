/** The metrics of this guard on a node. */
import type { MetricsRegistry } from '../../../guard/guard.ts';
import { metricFamily } from '../../../lib/telemetry/metric-family.ts';

/** Counts since the process started. */
export class NodeCounts {
  passes = 0;
  failedPasses = 0;
  driftRepaired = 0;
  /** When the last pass ended, by the wall clock; undefined: there was none yet. */
  lastPassMs: number | undefined;
  /** Now. */
  loaded = 0;
  failed = 0;
  outdated = 0;
  folded: () => number = () => 0;
}

/** Registers `rampart_bpf_programs_*`. @throws when the registry has them already. */
export function registerNodeMetrics(metrics: MetricsRegistry, counts: NodeCounts = new NodeCounts()): void {
  const { counter, gauge } = metricFamily(metrics, 'rampart_bpf_programs');
  gauge('loaded', 'eBPF programs that the kernel runs for objects of this guard.', () => counts.loaded);
  gauge('not_loaded', 'Requested eBPF programs that do not run.', () => counts.failed);
  gauge(
    'outdated',
    'eBPF programs of which the last version that ran is kept, because the requested one cannot run.',
    () => counts.outdated,
  );
  counter('passes', 'Reconciliations of all programs requested for this node.', () => counts.passes);
  gauge('last_pass_timestamp_seconds', 'When the last reconciliation ended, since the Unix epoch.', () =>
    counts.lastPassMs === undefined ? [] : [{ labels: {}, value: counts.lastPassMs / 1000 }],
  );
  counter(
    'pass_failures',
    'Reconciliations that failed as a whole and were retried.',
    () => counts.failedPasses,
  );
  counter(
    'drift_repaired',
    'Kernel objects repaired after other programs changed them.',
    () => counts.driftRepaired,
  );
  counter(
    'findings_folded',
    'Findings that were not told by themselves because there were too many like them.',
    () => counts.folded(),
  );
}
