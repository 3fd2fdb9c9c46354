/** The sensor's counts as Prometheus metrics. */
import type { Metrics } from '../../lib/telemetry/metrics.ts';
import { byLabel, metricFamily } from '../../lib/telemetry/metric-family.ts';
import type { SensorStats } from '../../lib/sensor/options.ts';

/**
 * Serves /metrics and /healthz at `address`, or nothing if that is undefined. The caller disposes the result.
 *
 * @param stats - The current counts; undefined before there is a sensor, which is shown as zeros.
 * @throws {RampartError} `INPUT` for a bad address, `SYSTEM` if it cannot be listened on.
 */
export async function serveSensorMetrics(
  address: string | undefined,
  stats: () => SensorStats | undefined,
  say: (text: string) => void,
): Promise<AsyncDisposable> {
  if (address === undefined) return { [Symbol.asyncDispose]: async () => {} };
  const { createMetrics, serveMetrics } = await import('../../lib/telemetry/metrics.ts');
  const metrics = await createMetrics();
  const { counter } = registerSensorCounts(metrics, 'rampart_sensor', stats);
  counter('produced', 'Accesses to watched files that passed the filters.', (counts) => counts.produced);
  counter('received', 'Accesses reported.', (counts) => counts.received);
  const server = await serveMetrics({ registry: metrics.registry, address });
  say(`metrics on ${server.url}/metrics`);
  return server;
}

/**
 * Registers what the sensor counts, as `<prefix>_*`.
 *
 * @returns a function that registers another counter.
 */
export function registerSensorCounts(
  metrics: Pick<Metrics, 'counter' | 'gauge'>,
  prefix: string,
  stats: () => SensorStats | undefined,
): { counter: (name: string, help: string, read: (counts: SensorStats) => number) => void } {
  const now = (read: (counts: SensorStats) => number): number => {
    const counts = stats();
    return counts === undefined ? 0 : read(counts);
  };
  const family = metricFamily(metrics, prefix);
  const counter = (name: string, help: string, read: (counts: SensorStats) => number): void =>
    family.counter(name, help, () => now(read));
  const gauge = (name: string, help: string, read: (counts: SensorStats) => number): void =>
    family.gauge(name, help, () => now(read));
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
  counter(
    'refused_directories',
    'Directories beyond the limit of 131,072: files that come in them are watched some milliseconds later than in others.',
    (counts) => counts.refusedDirectories,
  );
  const lost = () => {
    const { ringFull = 0, noReturn = 0, consumer = 0 } = stats()?.lost ?? {};
    return byLabel('reason', { ring_full: ringFull, no_return: noReturn, consumer });
  };
  family.counter('lost', 'Accesses lost, by reason.', lost, ['reason']);
  gauge('targets', 'Files that the sensor watches.', (counts) => counts.targets);
  gauge('capacity', 'Maximum number of files that the sensor can watch.', (counts) => counts.capacity);
  return { counter };
}
