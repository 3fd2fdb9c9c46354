/** A delivery's counts as Prometheus metrics. */
import type { MetricsRegistry } from '../../../shared/guard/guard.ts';
import type { Delivery } from './delivery.ts';
import type { CallbackStats, DeliveryStats } from './options.ts';

/** A scrape asks for each metric by itself; the counts are taken once for all of them. */
const SNAPSHOT_MS = 50;

type Sample = { readonly labels: Readonly<Record<string, string>>; readonly value: number };

/** Adds `rampart_callback_...` to the metrics. Callbacks are named without path and query, which may be secret. */
export function addDeliveryMetrics(
  metrics: MetricsRegistry,
  delivery: Pick<Delivery, 'stats' | 'callbacks'>,
): void {
  const stats = snapshot(() => delivery.stats);
  const callbacks = snapshot(() => delivery.callbacks());
  const count = (name: string, help: string, read: (now: DeliveryStats) => number): void =>
    metrics.counter({ name: `rampart_callback_${name}_total`, help }, () => read(stats()));
  const byReason = (
    name: string,
    help: string,
    read: (now: DeliveryStats) => Readonly<Record<string, number>>,
  ): void =>
    metrics.counter({ name: `rampart_callback_${name}_total`, help, labelNames: ['reason'] }, () =>
      Object.entries(read(stats())).map(([reason, value]): Sample => ({ labels: { reason }, value })),
    );
  const gauge = (name: string, help: string, read: (callback: CallbackStats) => number): void =>
    metrics.gauge({ name: `rampart_callback_${name}`, help, labelNames: ['callback'] }, () =>
      callbacks().map((callback): Sample => ({ labels: { callback: callback.name }, value: read(callback) })),
    );

  count('offered', 'Alerts for callbacks.', (now) => now.offered);
  count('queued', 'Alerts taken into a queue.', (now) => now.accepted);
  byReason('refused', 'Alerts not taken into a queue, by reason.', (now) => now.refused);
  count('recovered', 'Alerts that an earlier process had left in its queues.', (now) => now.recovered);
  count('delivered', 'Alerts that their receiver has taken.', (now) => now.delivered);
  count('retried', 'Tries that failed.', (now) => now.retried);
  byReason('dropped', 'Queued alerts that are given up, by reason.', (now) => now.dropped);
  count('latency_seconds', 'Time in the queue, over all delivered alerts.', (now) => now.latencyMs / 1000);
  count('damaged_files', 'Queue files with damaged parts.', (now) => now.damagedFiles);
  count('torn_bytes', 'Bytes of writes that an earlier end has cut off.', (now) => now.tornBytes);
  count('sync_errors', 'Failures to bring a queue to the disk.', (now) => now.syncErrors);
  count('cursor_errors', 'Deliveries that could not be written down.', (now) => now.cursorErrors);
  gauge('queue_alerts', 'Alerts that wait.', (callback) => callback.depth);
  gauge('queue_bytes', 'Length of the queue files.', (callback) => callback.sizeBytes);
  gauge('queue_oldest_seconds', 'Age of the oldest alert.', (callback) => callback.oldestMs / 1000);
  gauge('failures', 'Failed tries since the last success.', (callback) => callback.failures);
}

function snapshot<T>(read: () => T): () => T {
  let taken: { readonly atMs: number; readonly value: T } | undefined;
  return () => {
    const atMs = performance.now();
    if (taken === undefined || atMs - taken.atMs > SNAPSHOT_MS) taken = { atMs, value: read() };
    return taken.value;
  };
}
