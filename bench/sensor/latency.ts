/** How long it takes from an access to its alert line in the hands of the next program in the pipe. */
import { readdirSync, readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

import { WallClock } from '../../lib/sensor/clock.ts';
import { type PartOptions, quantile, type Report } from '../report.ts';
import { Build } from './build.ts';
import { NativeLoop } from './native-loop.ts';
import { WatchProcess } from './watch-process.ts';

const ACCESSES = 10_000;
const PER_SECOND = 1000;
const P99_TARGET_MS = 5;
/** How long the last line may take before it counts as missing. */
const LAST_LINE_MS = 3000;

/**
 * A native program opens the watched file at a fixed pace; `rampart watch` writes to a pipe that is read
 * here. The time of the access is the kernel's, from the alert; of the line, the wall clock when it is read.
 *
 * @throws {Error} without a C compiler, or when `rampart watch` does not start.
 */
export async function latency(options: PartOptions): Promise<Report> {
  const accesses = Math.max(10, Math.ceil(ACCESSES / options.shrink));
  using build = new Build();
  const binary = build.nativeLoop();
  await using watch = new WatchProcess(['--mode', options.mode, '--rate', '0', '-o', 'json']);
  await watch.watching(options.signal);
  // The pace keeper gets no CPU of its own: on two CPUs it would take one from the watcher.
  using loop = new NativeLoop(binary, -1, watch.file);

  const clock = new WallClock();
  const tookMs: number[] = [];
  createInterface({ input: watch.stdout }).on('line', (line) => {
    const readNs = clock.wallNs(process.hrtime.bigint());
    const { timestamp, process: who } = JSON.parse(line) as { timestamp: string; process: { tgid: number } };
    if (who.tgid === loop.pid) tookMs.push(Number(readNs - toNs(timestamp)) / 1e6);
  });

  options.progress(`latency: ${accesses} accesses at ${PER_SECOND} a second`);
  const late = monitorEventLoopDelay({ resolution: 1 });
  late.enable();
  const waitedBeforeMs = waitedForCpuMs(watch.pid);
  await loop.pace(accesses, 1e9 / PER_SECOND, options.signal);
  const giveUpMs = performance.now() + LAST_LINE_MS;
  while (tookMs.length < accesses && performance.now() < giveUpMs) await sleep(10);

  late.disable();
  const waitedMs = waitedForCpuMs(watch.pid) - waitedBeforeMs;

  const [p50, p99, max] = [0.5, 0.99, 1].map((q) => quantile(tookMs, q)) as [number, number, number];
  const ms = (value: number): string => `${value.toFixed(2)} ms`;
  return {
    title: 'From an access to its alert line, read at the other end of the pipe',
    columns: ['accesses', 'lines', 'p50', 'p99', 'most', 'p99 x target'],
    rows: [
      {
        label: `${PER_SECOND} a second`,
        cells: {
          accesses: String(accesses),
          lines: String(tookMs.length),
          p50: ms(p50),
          p99: ms(p99),
          max: ms(max),
          'p99 x target': (p99 / P99_TARGET_MS).toFixed(2),
        },
        values: {
          accesses,
          lines: tookMs.length,
          p50Ms: p50,
          p99Ms: p99,
          maxMs: max,
          waitedForCpuMs: waitedMs,
          ratioToTarget: p99 / P99_TARGET_MS,
        },
      },
    ],
    verdicts: [
      { target: `p99 at most ${P99_TARGET_MS} ms`, measured: ms(p99), met: p99 <= P99_TARGET_MS },
      {
        target: 'every access arrives once',
        measured: `${tookMs.length} of ${accesses}`,
        met: tookMs.length === accesses,
      },
    ],
    notes: [
      'The time that this program needs to be woken and to read is in it.',
      // On a machine that is busy with other things, these two say how much of the above is waiting for a CPU.
      `Meanwhile rampart watch was ready to run and had no CPU for ${ms(waitedMs)} in all.`,
      `Meanwhile a timer of 1 ms of this program fired every ${ms(late.percentile(50) / 1e6)} (p50), ${ms(late.percentile(99) / 1e6)} (p99), ${ms(late.max / 1e6)} (most).`,
    ],
  };
}

/** How long all threads of a process have been ready to run without a CPU (Documentation/scheduler/sched-stats.rst). */
function waitedForCpuMs(pid: number): number {
  let ns = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    ns += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[1]);
  }
  return ns / 1e6;
}

/** RFC 3339 with nine digits of a second -> nanoseconds since 1970. */
function toNs(timestamp: string): bigint {
  const [seconds = '', fraction = ''] = timestamp.replace('Z', '').split('.');
  return BigInt(Date.parse(`${seconds}Z`)) * 1_000_000n + BigInt(fraction.padEnd(9, '0'));
}
