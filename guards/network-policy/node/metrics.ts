/** The metrics of this guard on a node. */
import type { MetricsRegistry } from '../../../guard/guard.ts';
import type { Refused } from './dataplane.ts';

export class NodeCounts {
  fullSyncs = 0;
  partialSyncs = 0;
  failedSyncs = 0;
  /** Things of ours that somebody else had changed. */
  driftRepaired = 0;
  /** Of the last successful full sync. */
  lastSyncSeconds = 0;
  /** When that was, by the wall clock; undefined: there was none yet. */
  lastSyncMs: number | undefined;
  localPods = 0;
  policies = 0;
  problems = 0;
  refused: readonly Refused[] = [];
  /** Connections that were ended because they were no longer allowed. */
  flowsCut = 0;
  /** Refused packets that were reported as a line. */
  refusalsTold = 0;
  /** Refused packets that were logged, but that the kernel had no room for. */
  refusalsLost = 0;
}

/** Registers `rampart_network_policy_*`. @throws when the registry has them already. */
export function registerNodeMetrics(metrics: MetricsRegistry, counts: NodeCounts = new NodeCounts()): void {
  const name = (of: string): string => `rampart_network_policy_${of}`;
  metrics.counter(
    { name: name('syncs_total'), help: 'Changes to the rules in the kernel.', labelNames: ['kind'] },
    () => [
      { labels: { kind: 'full' }, value: counts.fullSyncs },
      { labels: { kind: 'partial' }, value: counts.partialSyncs },
    ],
  );
  const counter = (of: string, help: string, read: () => number): void =>
    metrics.counter({ name: name(of), help }, read);
  const gauge = (of: string, help: string, read: () => number): void =>
    metrics.gauge({ name: name(of), help }, read);
  counter('sync_failures_total', 'Changes that the kernel rejected.', () => counts.failedSyncs);
  counter(
    'drift_repaired_total',
    'Kernel objects repaired after other programs changed them.',
    () => counts.driftRepaired,
  );
  counter(
    'flows_cut_total',
    'Established connections cut because the policies no longer allow them.',
    () => counts.flowsCut,
  );
  counter(
    'refusals_told_total',
    'Refused packets reported as an alert; the kernel logs at most ten per minute for each pod and direction.',
    () => counts.refusalsTold,
  );
  counter(
    'refusals_lost_total',
    'Refused packets not reported because they arrived faster than they were read.',
    () => counts.refusalsLost,
  );
  gauge('full_sync_seconds', 'Duration of the last full sync.', () => counts.lastSyncSeconds);
  gauge('pods', 'Pods of this node that have rules.', () => counts.localPods);
  gauge('policies', 'Policy directions that apply to pods of this node.', () => counts.policies);
  gauge('problems', 'Policy fields that cannot be expressed.', () => counts.problems);
  metrics.counter(
    {
      name: name('refused_packets_total'),
      help: 'Refused packets by pod; an empty pod stands for the addresses of unknown pods.',
      labelNames: ['namespace', 'pod', 'direction'],
    },
    () =>
      counts.refused.map(({ pod = '/', direction, packets }) => {
        const [namespace = '', podName = ''] = pod.split('/');
        return { labels: { namespace, pod: podName, direction }, value: packets };
      }),
  );
}
