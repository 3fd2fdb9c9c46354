/** The metrics of this guard on a node. */
import type { MetricsRegistry } from '../../../guard/guard.ts';

/** Counts since the process started. */
export class NodeCounts {
  passes = 0;
  failedPasses = 0;
  driftRepaired = 0;
  /** Now. */
  loaded = 0;
  failed = 0;
}

/** Registers `rampart_bpf_programs_*`. @throws when the registry has them already. */
export function registerNodeMetrics(metrics: MetricsRegistry, counts: NodeCounts = new NodeCounts()): void {
  const name = (of: string): string => `rampart_bpf_programs_${of}`;
  metrics.gauge(
    { name: name('loaded'), help: 'eBPF programs that the kernel runs for objects of this guard.' },
    () => counts.loaded,
  );
  metrics.gauge(
    { name: name('not_loaded'), help: 'Requested eBPF programs that do not run.' },
    () => counts.failed,
  );
  metrics.counter(
    { name: name('passes_total'), help: 'Reconciliations of all programs requested for this node.' },
    () => counts.passes,
  );
  metrics.counter(
    { name: name('pass_failures_total'), help: 'Reconciliations that failed as a whole and were retried.' },
    () => counts.failedPasses,
  );
  metrics.counter(
    {
      name: name('drift_repaired_total'),
      help: 'Kernel objects repaired after other programs changed them.',
    },
    () => counts.driftRepaired,
  );
}
