/**
 * The sensor's counts as Prometheus metrics.
 *
 * @module
 */
import type { SensorStats } from '../../shared/sensor/options.ts';

/**
 * Serves /metrics and /healthz at `address`, or nothing when there is none. The caller disposes it.
 *
 * @throws {RampartError} `INPUT` for a bad address, `SYSTEM` when it cannot be listened on.
 */
export async function serveSensorMetrics(
  address: string | undefined,
  stats: () => SensorStats,
  say: (text: string) => void,
): Promise<AsyncDisposable> {
  if (address === undefined) return { [Symbol.asyncDispose]: async () => {} };
  const { createMetrics, serveMetrics } = await import('../../shared/observe/metrics.ts');
  const metrics = await createMetrics();
  const counter = (name: string, help: string, read: (now: SensorStats) => number): void =>
    metrics.counter({ name: `rampart_sensor_${name}_total`, help }, () => read(stats()));
  counter('produced', 'Accesses to watched files that passed the filters.', (now) => now.produced);
  counter('received', 'Accesses handed out.', (now) => now.received);
  counter('folded', 'Accesses held back by the rate limit.', (now) => now.folded);
  counter(
    'recycled',
    'Accesses to another file that got the inode number of a watched one.',
    (now) => now.recycled,
  );
  counter('verdict_unknown', 'Accesses without a verdict.', (now) => now.verdictUnknown);
  counter(
    'hook_misses',
    'Times the kernel skipped a program that was running already.',
    (now) => now.hookMisses,
  );
  metrics.counter(
    { name: 'rampart_sensor_lost_total', help: 'Accesses lost, by reason.', labelNames: ['reason'] },
    () => {
      const { lost } = stats();
      return [
        { labels: { reason: 'ring_full' }, value: lost.ringFull },
        { labels: { reason: 'no_return' }, value: lost.noReturn },
        { labels: { reason: 'consumer' }, value: lost.consumer },
      ];
    },
  );
  metrics.gauge({ name: 'rampart_sensor_targets', help: 'Files in the kernel map.' }, () => stats().targets);
  metrics.gauge({ name: 'rampart_sensor_capacity', help: 'Most files it can hold.' }, () => stats().capacity);
  const server = await serveMetrics({ registry: metrics.registry, address });
  say(`metrics on ${server.url}/metrics`);
  return server;
}
