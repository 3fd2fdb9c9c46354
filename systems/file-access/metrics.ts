/** The sensor's counts as Prometheus metrics. */
import type { SensorStats } from '../../shared/sensor/options.ts';

/**
 * Serves /metrics and /healthz at `address`, or nothing when there is none. The caller disposes it.
 *
 * @param stats - The counts now; undefined, which shows as zeros, while there is no sensor yet.
 * @throws {RampartError} `INPUT` for a bad address, `SYSTEM` when it cannot be listened on.
 */
export async function serveSensorMetrics(
  address: string | undefined,
  stats: () => SensorStats | undefined,
  say: (text: string) => void,
): Promise<AsyncDisposable> {
  if (address === undefined) return { [Symbol.asyncDispose]: async () => {} };
  const { createMetrics, serveMetrics } = await import('../../shared/observe/metrics.ts');
  const metrics = await createMetrics();
  const now = (read: (counts: SensorStats) => number): number => {
    const counts = stats();
    return counts === undefined ? 0 : read(counts);
  };
  const counter = (name: string, help: string, read: (counts: SensorStats) => number): void =>
    metrics.counter({ name: `rampart_sensor_${name}_total`, help }, () => now(read));
  counter('produced', 'Accesses to watched files that passed the filters.', (counts) => counts.produced);
  counter('received', 'Accesses reported.', (counts) => counts.received);
  counter('folded', 'Accesses suppressed by the rate limit.', (counts) => counts.folded);
  counter(
    'recycled',
    'Accesses to another file that reused the inode number of a watched one.',
    (counts) => counts.recycled,
  );
  counter('verdict_unknown', 'Accesses without a verdict.', (counts) => counts.verdictUnknown);
  counter(
    'hook_misses',
    'Times the kernel skipped a program because it was already running.',
    (counts) => counts.hookMisses,
  );
  metrics.counter(
    { name: 'rampart_sensor_lost_total', help: 'Accesses lost, by reason.', labelNames: ['reason'] },
    () => [
      { labels: { reason: 'ring_full' }, value: now(({ lost }) => lost.ringFull) },
      { labels: { reason: 'no_return' }, value: now(({ lost }) => lost.noReturn) },
      { labels: { reason: 'consumer' }, value: now(({ lost }) => lost.consumer) },
    ],
  );
  metrics.gauge({ name: 'rampart_sensor_targets', help: 'Files that the sensor watches.' }, () =>
    now((counts) => counts.targets),
  );
  metrics.gauge(
    { name: 'rampart_sensor_capacity', help: 'Maximum number of files that the sensor can watch.' },
    () => now((counts) => counts.capacity),
  );
  const server = await serveMetrics({ registry: metrics.registry, address });
  say(`metrics on ${server.url}/metrics`);
  return server;
}
