/** The metrics of this guard on a node. */
import type { MetricsRegistry } from '../../../guard/guard.ts';
import { metricFamily } from '../../../lib/telemetry/metric-family.ts';

/** Counts since the process started. */
export class NodeCounts {
  passes = 0;
  failedPasses = 0;
  driftRepaired = 0;
  /** When the last pass ended, in ms since 1970; undefined before the first one. */
  lastPassMs: number | undefined;
  /** The number of programs in each state after the last pass. */
  loaded = 0;
  failed = 0;
  outdated = 0;
  folded: () => number = () => 0;
  /** Undefined if volumes are not served. */
  csi: { readonly mounted: number; readonly failures: number } | undefined;
}

/** Registers `rampart_bpf_programs_*`. @throws if the registry already has them. */
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
  gauge('csi_volumes', 'Volumes of pods with maps of eBPF programs that are mounted, with --bpf-csi.', () =>
    counts.csi === undefined ? [] : [{ labels: {}, value: counts.csi.mounted }],
  );
  counter(
    'csi_failures',
    'Calls of kubelet for volumes that failed, other than because a program is not loaded yet.',
    () => counts.csi?.failures ?? 0,
  );
}
