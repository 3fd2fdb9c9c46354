/** An exporter's counts as Prometheus metrics. */
import type { Metrics } from '../telemetry/metrics.ts';
import type { OtlpExporter } from './exporter.ts';
import { newCounts, type OtlpStats } from './options.ts';

/**
 * Adds `rampart_otlp_...`.
 *
 * @param exporter - Without it all is 0.
 */
export function addOtlpMetrics(
  metrics: Pick<Metrics, 'counter' | 'gauge'>,
  exporter?: Pick<OtlpExporter, 'stats'>,
): void {
  const nothing = { ...newCounts(), depth: 0, sizeBytes: 0, oldestMs: 0, failures: 0, lastError: undefined };
  const stats = (): OtlpStats => exporter?.stats ?? nothing;
  const count = (name: string, help: string, read: (now: OtlpStats) => number): void =>
    metrics.counter({ name: `rampart_otlp_${name}_total`, help }, () => read(stats()));
  const byReason = (
    name: string,
    help: string,
    read: (now: OtlpStats) => Readonly<Record<string, number>>,
  ): void =>
    metrics.counter({ name: `rampart_otlp_${name}_total`, help, labelNames: ['reason'] }, () =>
      Object.entries(read(stats())).map(([reason, value]) => ({ labels: { reason }, value })),
    );
  const gauge = (name: string, help: string, read: (now: OtlpStats) => number): void =>
    metrics.gauge({ name: `rampart_otlp_${name}`, help }, () => read(stats()));

  count('queued', 'Findings queued for OTLP.', (now) => now.queued);
  byReason('refused', 'Findings not queued for OTLP, by reason.', (now) => now.refused);
  count('recovered', 'Findings recovered from the queue of an earlier process.', (now) => now.recovered);
  count('sent', 'Findings accepted by the OTLP receiver.', (now) => now.sent);
  byReason('dropped', 'Findings queued for OTLP and dropped, by reason.', (now) => now.dropped);
  count('retried', 'Failed OTLP requests that are made again.', (now) => now.retried);
  count('sync_errors', 'Failures to sync the queue to disk.', (now) => now.syncErrors);
  count('cursor_errors', 'Batches sent whose delivery could not be recorded.', (now) => now.cursorErrors);
  gauge('queue_findings', 'Findings that wait for the OTLP receiver.', (now) => now.depth);
  gauge('queue_bytes', 'Size of the queue files.', (now) => now.sizeBytes);
  gauge('queue_oldest_seconds', 'Age of the oldest finding that waits.', (now) => now.oldestMs / 1000);
  gauge('failures', 'Failed OTLP requests since the last success.', (now) => now.failures);
}
