/** Exposes a delivery's counts as Prometheus metrics. */
import type { MetricsRegistry } from '../../../guard/guard.ts';
import type { Delivery } from './delivery.ts';
import type { CallbackStats, DeliveryStats } from './options.ts';

/** A scrape reads each metric separately; within this time all of them use the same snapshot of the counts. */
const SNAPSHOT_MS = 50;

type Sample = { readonly labels: Readonly<Record<string, string>>; readonly value: number };

/**
 * Registers `rampart_callback_...`. Callbacks are named without path and query, which may be secret.
 *
 * @param delivery - If omitted, all values are 0.
 */
export function addDeliveryMetrics(
  metrics: MetricsRegistry,
  delivery?: Pick<Delivery, 'stats' | 'callbacks'>,
): void {
  const stats = snapshot(() => delivery?.stats);
  const callbacks = snapshot(() => delivery?.callbacks() ?? []);
  const count = (name: string, help: string, read: (now: DeliveryStats) => number): void =>
    metrics.counter({ name: `rampart_callback_${name}_total`, help }, () => {
      const now = stats();
      return now === undefined ? 0 : read(now);
    });
  const byReason = (
    name: string,
    help: string,
    read: (now: DeliveryStats) => Readonly<Record<string, number>>,
  ): void =>
    metrics.counter({ name: `rampart_callback_${name}_total`, help, labelNames: ['reason'] }, () => {
      const now = stats();
      const counts = now === undefined ? {} : read(now);
      return Object.entries(counts).map(([reason, value]): Sample => ({ labels: { reason }, value }));
    });
  const gauge = (name: string, help: string, read: (callback: CallbackStats) => number): void =>
    metrics.gauge({ name: `rampart_callback_${name}`, help, labelNames: ['callback'] }, () =>
      callbacks().map((callback): Sample => ({ labels: { callback: callback.name }, value: read(callback) })),
    );

  count('offered', 'Alerts for callbacks.', (now) => now.offered);
  count('queued', 'Alerts queued.', (now) => now.accepted);
  byReason('refused', 'Alerts not queued, by reason.', (now) => now.refused);
  count('recovered', 'Alerts recovered from the queues of an earlier process.', (now) => now.recovered);
  count('delivered', 'Alerts accepted by their receiver.', (now) => now.delivered);
  count('retried', 'Failed delivery attempts.', (now) => now.retried);
  byReason('dropped', 'Queued alerts dropped, by reason.', (now) => now.dropped);
  count(
    'latency_seconds',
    'Total time that delivered alerts spent in the queue.',
    (now) => now.latencyMs / 1000,
  );
  count('damaged_files', 'Damaged queue files.', (now) => now.damagedFiles);
  count('torn_bytes', 'Bytes of incomplete writes by an earlier process.', (now) => now.tornBytes);
  count('sync_errors', 'Failures to sync a queue to disk.', (now) => now.syncErrors);
  count('cursor_errors', 'Deliveries that could not be recorded.', (now) => now.cursorErrors);
  gauge('queue_alerts', 'Alerts in the queue.', (callback) => callback.depth);
  gauge('queue_bytes', 'Size of the queue files.', (callback) => callback.sizeBytes);
  gauge(
    'queue_oldest_seconds',
    'Age of the oldest alert in the queue.',
    (callback) => callback.oldestMs / 1000,
  );
  gauge('failures', 'Failed attempts since the last success.', (callback) => callback.failures);
}

function snapshot<T>(read: () => T): () => T {
  let taken: { readonly atMs: number; readonly value: T } | undefined;
  return () => {
    const atMs = performance.now();
    if (taken === undefined || atMs - taken.atMs > SNAPSHOT_MS) taken = { atMs, value: read() };
    return taken.value;
  };
}
