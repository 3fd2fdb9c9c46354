/**
 * What the guard counts on a node, and its metrics.
 *
 * @module
 */
import type { Metrics } from '../../shared/observe/metrics.ts';
import type { SensorStats } from '../../shared/sensor/options.ts';

/** Upper bounds of the latency's buckets, in seconds. */
const bounds = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5] as const;
const labels = [...bounds.map(String), '+Inf'];

/** Counts since the start of the process. */
export class NodeCounts {
  /** Alert lines that were written. */
  alerts = 0;
  /** Given to the queues of callbacks, and refused by them. */
  callbacks = 0;
  callbacksRefused = 0;
  /** From the access to the line. */
  latencySeconds = 0;
  readonly #latencies: number[] = labels.map(() => 0);

  addLatency(ms: number): void {
    const seconds = Math.max(0, ms / 1000);
    this.latencySeconds += seconds;
    let at = bounds.length;
    while (at > 0 && seconds <= (bounds[at - 1] as number)) at--;
    this.#latencies[at] = (this.#latencies[at] ?? 0) + 1;
  }

  /** By upper bound, each with all that were quicker, as Prometheus has it. */
  latencies(): { readonly labels: { readonly le: string }; readonly value: number }[] {
    let sum = 0;
    return labels.map((le, at) => ({ labels: { le }, value: (sum += this.#latencies[at] ?? 0) }));
  }
}

/** What is read at a scrape. */
export interface NodeReadings {
  readonly counts: NodeCounts;
  readonly sensor: () => SensorStats;
  /** Planned alerts in place, and those that there is no room for. */
  readonly watched: () => number;
  readonly refused: () => number;
  readonly isLoader: () => boolean;
  readonly containers: () => number;
  readonly data: () => number;
}

/** Registers `rampart_file_access_*`. @throws when the registry has them already. */
export function registerNodeMetrics(metrics: Pick<Metrics, 'counter' | 'gauge'>, of: NodeReadings): void {
  const { counts } = of;
  const counter = (name: string, help: string, read: () => number): void =>
    metrics.counter({ name: `rampart_file_access_${name}_total`, help }, read);
  const gauge = (name: string, help: string, read: () => number): void =>
    metrics.gauge({ name: `rampart_file_access_${name}`, help }, read);
  counter('alerts', 'Alerts that were made.', () => counts.alerts);
  counter('callbacks', 'Alerts given to the queue of a callback.', () => counts.callbacks);
  counter('callbacks_refused', 'Alerts that no queue took.', () => counts.callbacksRefused);
  counter('folded', 'Accesses held back by the rate limit.', () => of.sensor().folded);
  metrics.counter(
    { name: 'rampart_file_access_lost_total', help: 'Accesses lost, by reason.', labelNames: ['reason'] },
    () => {
      const { ringFull, noReturn, consumer } = of.sensor().lost;
      return [
        { labels: { reason: 'ring_full' }, value: ringFull },
        { labels: { reason: 'no_return' }, value: noReturn },
        { labels: { reason: 'consumer' }, value: consumer },
      ];
    },
  );
  counter('latency_seconds', 'From access to line, summed.', () => counts.latencySeconds);
  metrics.counter(
    {
      name: 'rampart_file_access_latency_total',
      help: 'Alerts by the time from access to line: at most this many seconds.',
      labelNames: ['le'],
    },
    () => counts.latencies(),
  );
  gauge('watched', 'Traps on files of containers that are watched.', of.watched);
  gauge('refused', 'Traps on files that the sensor has no room for.', of.refused);
  gauge('loader', 'Whether this agent is the loader of its kernel.', () => (of.isLoader() ? 1 : 0));
  gauge('containers', 'Running containers of this node.', of.containers);
  gauge('kivedata', 'KiveData of the cluster.', of.data);
  gauge('targets', 'Files in the kernel map.', () => of.sensor().targets);
  gauge('capacity', 'Most files it can hold.', () => of.sensor().capacity);
}
