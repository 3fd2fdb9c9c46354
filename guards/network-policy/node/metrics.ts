/** The metrics of this guard on a node. */
import type { MetricsRegistry } from '../../../guard/guard.ts';
import { Histogram } from '../../../lib/telemetry/histogram.ts';
import { byLabel, metricFamily } from '../../../lib/telemetry/metric-family.ts';
import type { PodKey, RefusalVerdict } from '../engine/rules.ts';
import type { Refused } from '../dataplane/dataplane.ts';
import type { PolicyRefused } from './policy-refusals.ts';
import type { ForgedSources } from './sources/source-table.ts';

export class NodeCounts {
  fullSyncs = 0;
  partialSyncs = 0;
  failedSyncs = 0;
  /** Our objects that other programs had changed. */
  driftRepaired = 0;
  /** Duration of the last successful full sync. */
  lastSyncSeconds = 0;
  /** When that sync was, by the wall clock, in milliseconds; undefined before the first one. */
  lastSyncMs: number | undefined;
  /**
   * Durations of all successful syncs, full or not. The bounds are the default ones of Prometheus' client
   * library for Go, like kube-router's.
   */
  readonly syncSeconds = new Histogram([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]);
  localPods = 0;
  policies = 0;
  problems = 0;
  refused: readonly Refused[] = [];
  refusedByPolicy: readonly PolicyRefused[] = [];
  /** Packets that pods have sent with addresses of others, since the check began. */
  forgedSources: readonly ForgedSources[] = [];
  /** Pods of this node whose sources are not checked. */
  uncheckedPods = 0;
  /** Connections that were ended because they were no longer allowed. */
  flowsCut = 0;
  /** Connections of pods that are gone, which were removed from conntrack. */
  flowsForgotten = 0;
  /** Refused packets that were reported as a line. */
  refusalsReported = 0;
  /** Refused packets whose log messages were lost because the kernel's queue was full. */
  refusalsLost = 0;
  /** Allowed connections of pods of this node that were reported as a line. */
  flowsLogged = 0;
  /** Flows that were not logged because of the limit. */
  flowsNotLogged = 0;
  /** New connections, of pods or not, that the kernel had no room to report. */
  flowsLost = 0;
}

/** Registers `rampart_network_policy_*`. @throws when the registry has them already. */
export function registerNodeMetrics(metrics: MetricsRegistry, counts: NodeCounts = new NodeCounts()): void {
  const { counter, gauge } = metricFamily(metrics, 'rampart_network_policy');
  const syncs = () => byLabel('kind', { full: counts.fullSyncs, partial: counts.partialSyncs });
  counter('syncs', 'Changes to the rules in the kernel.', syncs, ['kind']);
  counter('sync_failures', 'Changes that the kernel rejected.', () => counts.failedSyncs);
  counter(
    'drift_repaired',
    'Kernel objects repaired after other programs changed them.',
    () => counts.driftRepaired,
  );
  counter(
    'flows_cut',
    'Established connections cut because the policies no longer allow them.',
    () => counts.flowsCut,
  );
  counter(
    'flows_forgotten',
    'Connections of pods that are gone, removed from connection tracking.',
    () => counts.flowsForgotten,
  );
  counter(
    'refusals_told',
    'Refused packets reported as an alert; the kernel logs at most ten per minute for each pod and direction.',
    () => counts.refusalsReported,
  );
  counter(
    'refusals_lost',
    'Refused packets not reported because they arrived faster than they were read.',
    () => counts.refusalsLost,
  );
  counter(
    'flows_logged',
    'Allowed connections of pods of this node reported by --network-flow-log.',
    () => counts.flowsLogged,
  );
  counter(
    'flows_not_logged',
    'Allowed connections of pods of this node beyond the limit of --network-flow-log.',
    () => counts.flowsNotLogged,
  );
  counter(
    'flows_lost',
    'New connections of the node, whoever had them, that --network-flow-log missed because they came faster than they were read.',
    () => counts.flowsLost,
  );
  gauge('full_sync_seconds', 'Duration of the last full sync.', () => counts.lastSyncSeconds);
  gauge('last_full_sync_timestamp_seconds', 'When the last full sync succeeded, since the Unix epoch.', () =>
    counts.lastSyncMs === undefined ? [] : [{ labels: {}, value: counts.lastSyncMs / 1000 }],
  );
  metrics.histogram(
    {
      name: 'kube_router_controller_iptables_sync_time',
      help: "Seconds that a change to the rules in the kernel took, with any backend: kube-router's name.",
    },
    () => counts.syncSeconds.read(),
  );
  gauge('pods', 'Pods of this node that have rules.', () => counts.localPods);
  gauge('policies', 'Policy directions that apply to pods of this node.', () => counts.policies);
  gauge('problems', 'Policy fields that cannot be expressed.', () => counts.problems);
  const podNames = ['namespace', 'pod', 'direction'];
  const policyNames = ['namespace', 'policy', 'direction'];
  const ofPod = (verdict: RefusalVerdict, what: 'bytes' | 'packets') => () =>
    counts.refused
      .filter((one) => one.verdict === verdict)
      .map(({ pod = '/', direction, ...counted }) => ({
        labels: { ...podLabels(pod), direction },
        value: counted[what],
      }));
  const ofPolicy = (verdict: RefusalVerdict, what: 'bytes' | 'packets') => () =>
    counts.refusedByPolicy
      .filter((one) => one.verdict === verdict)
      .map(({ policy, direction, ...counted }) => {
        const [namespace = '', name = ''] = policy.split('/');
        return { labels: { namespace, policy: name, direction }, value: counted[what] };
      });
  const ofSources = (verdict: RefusalVerdict) => () =>
    counts.forgedSources
      .filter((one) => one.verdict === verdict)
      .map(({ pod, packets }) => ({ labels: podLabels(pod), value: packets }));
  counter(
    'refused_packets',
    'Refused packets by pod; an empty pod stands for the addresses of unknown pods.',
    ofPod('refused', 'packets'),
    podNames,
  );
  counter(
    'refused_bytes',
    'Bytes of refused packets by pod, with their IP headers.',
    ofPod('refused', 'bytes'),
    podNames,
  );
  counter(
    'would_refuse_packets',
    'Packets by pod that passed because of monitor mode, and would be refused without it.',
    ofPod('would-refuse', 'packets'),
    podNames,
  );
  counter('would_refuse_bytes', 'Bytes of these packets by pod.', ofPod('would-refuse', 'bytes'), podNames);
  counter(
    'policy_refused_packets',
    'Refused packets by policy since the start of the agent: one counts for each policy that isolates the pod in this direction.',
    ofPolicy('refused', 'packets'),
    policyNames,
  );
  counter(
    'policy_refused_bytes',
    'Bytes of refused packets by policy, in the same way.',
    ofPolicy('refused', 'bytes'),
    policyNames,
  );
  counter(
    'policy_would_refuse_packets',
    'Packets by policy that passed because of monitor mode, and would be refused without it; counted as refused ones.',
    ofPolicy('would-refuse', 'packets'),
    policyNames,
  );
  counter(
    'policy_would_refuse_bytes',
    'Bytes of these packets by policy.',
    ofPolicy('would-refuse', 'bytes'),
    policyNames,
  );
  counter(
    'refused_sources',
    'Packets that a pod sent with an address that is not its own.',
    ofSources('refused'),
    ['namespace', 'pod'],
  );
  counter(
    'would_refuse_sources',
    'Such packets that passed because of monitor mode.',
    ofSources('would-refuse'),
    ['namespace', 'pod'],
  );
  gauge(
    'unchecked_source_pods',
    'Pods of this node that may send with any address: their interface is not known, or they are exempt.',
    () => counts.uncheckedPods,
  );
}

function podLabels(key: PodKey): { readonly namespace: string; readonly pod: string } {
  const [namespace = '', pod = ''] = key.split('/');
  return { namespace, pod };
}
