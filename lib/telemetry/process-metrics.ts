/**
 * The process itself, by the names that Prometheus' client libraries use
 * (https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics), and which build it is.
 */
import { readdirSync, readFileSync } from 'node:fs';

import type { Metrics } from './metrics.ts';

/** @throws when the registry has them already. */
export function registerProcessMetrics(
  metrics: Pick<Metrics, 'counter' | 'gauge'> | undefined,
  version: string,
): void {
  if (metrics === undefined) return;
  const gauge = (name: string, help: string, read: () => number): void =>
    metrics.gauge({ name: `process_${name}`, help }, read);
  const labels = { version, nodejs: process.versions.node };
  metrics.gauge(
    {
      name: 'rampart_build_info',
      help: '1, with the versions of Rampart and Node.js.',
      labelNames: Object.keys(labels),
    },
    () => [{ labels, value: 1 }],
  );
  metrics.counter({ name: 'process_cpu_seconds_total', help: 'User and system CPU time.' }, () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  gauge('start_time_seconds', 'Start time of the process since the Unix epoch.', () => startSeconds);
  gauge('resident_memory_bytes', 'Resident memory size.', () => process.memoryUsage.rss());
  gauge(
    'virtual_memory_bytes',
    'Virtual memory size.',
    () => 1024 * numberIn('status', /^VmSize:\s+(\d+) kB/m),
  );
  // The directory that is being read is one of them.
  gauge('open_fds', 'Open file descriptors.', () => readdirSync('/proc/self/fd').length - 1);
  gauge('max_fds', 'Maximum number of open file descriptors.', () =>
    numberIn('limits', /^Max open files\s+(\d+|unlimited)/m),
  );
}

/** Unaffected by changes of the system clock. */
const startSeconds = performance.timeOrigin / 1000;

/** Reads a number from a file of /proc/self; see proc(5). */
function numberIn(file: string, pattern: RegExp): number {
  const found = pattern.exec(readFileSync(`/proc/self/${file}`, 'utf8'))?.[1];
  return found === 'unlimited' ? Infinity : Number(found);
}
