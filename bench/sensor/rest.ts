/** The cost of an idle `rampart watch` of one file: memory, CPU time, wake-ups; and its start-up time. */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import type { PartOptions, Report } from '../report.ts';
import { WatchProcess } from './watch-process.ts';

const SETTLE_MS = 5000;
const REST_MS = 25_000;
const RSS_TARGET_MIB = 80;
/** The kernel counts CPU time in ticks of 10 ms (USER_HZ); housekeeping wakes up once a second. */
const TICK_MS = 10;
const CPU_TARGET = 0.001;

interface Usage {
  readonly rssMiB: number;
  readonly pssMiB: number;
  readonly anonymousMiB: number;
  readonly cpuMs: number;
  /** Switches of all threads. */
  readonly switches: number;
}

function field(text: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? Number.NaN);
}

function usageOf(pid: number): Usage {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  // Behind the name, which may hold anything but the last parenthesis: utime is the 14th field, stime the 15th.
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  let switches = 0;
  for (const thread of readTasks(pid)) {
    switches += field(readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8'), 'voluntary_ctxt_switches');
  }
  return {
    rssMiB: field(readFileSync(`/proc/${pid}/status`, 'utf8'), 'VmRSS') / 1024,
    pssMiB: field(rollup, 'Pss') / 1024,
    anonymousMiB: field(rollup, 'Anonymous') / 1024,
    cpuMs: (Number(stat[11]) + Number(stat[12])) * TICK_MS,
    switches,
  };
}

/** @throws {Error} when `rampart watch` does not start. */
export async function rest(options: PartOptions): Promise<Report> {
  await using watch = new WatchProcess(['--mode', options.mode]);
  const startMs = await watch.watching(options.signal);
  watch.stdout.resume();
  const pause = async (ms: number): Promise<void> => {
    await sleep(ms / options.shrink, undefined, { signal: options.signal });
  };
  options.progress(`rest: ${(SETTLE_MS + REST_MS) / options.shrink / 1000} seconds of nothing`);
  await pause(SETTLE_MS);
  const early = usageOf(watch.pid);
  await pause(REST_MS);
  const late = usageOf(watch.pid);

  const restSeconds = REST_MS / options.shrink / 1000;
  const cpuShare = (late.cpuMs - early.cpuMs) / 1000 / restSeconds;
  const switchesPerSecond = (late.switches - early.switches) / restSeconds;
  const worstRss = Math.max(early.rssMiB, late.rssMiB);
  const memory = (name: string, usage: Usage): Report['rows'][number] => ({
    label: `memory after ${name}`,
    cells: {
      RSS: `${usage.rssMiB.toFixed(1)} MiB`,
      PSS: `${usage.pssMiB.toFixed(1)} MiB`,
      'of its own': `${usage.anonymousMiB.toFixed(1)} MiB`,
      'RSS x target': (usage.rssMiB / RSS_TARGET_MIB).toFixed(2),
    },
    values: { ...usage, ratioToTarget: usage.rssMiB / RSS_TARGET_MIB },
  });
  return {
    title: '`rampart watch` of one file at rest',
    columns: ['RSS', 'PSS', 'of its own', 'RSS x target', 'measured'],
    rows: [
      memory(`${SETTLE_MS / options.shrink / 1000} s`, early),
      memory(`${(SETTLE_MS + REST_MS) / options.shrink / 1000} s`, late),
      plain('start until it watches', `${startMs.toFixed(0)} ms`, { startMs }),
      plain(`CPU time in ${restSeconds} s`, `${late.cpuMs - early.cpuMs} ms`, { cpuShare }),
      plain('voluntary context switches', `${switchesPerSecond.toFixed(1)} a second`, { switchesPerSecond }),
    ],
    verdicts: [
      {
        target: `RSS at most ${RSS_TARGET_MIB} MiB`,
        measured: `${worstRss.toFixed(1)} MiB`,
        met: worstRss <= RSS_TARGET_MIB,
      },
      {
        target: `no CPU at rest (at most ${CPU_TARGET * 100} % of one)`,
        measured: `${(100 * cpuShare).toFixed(2)} %`,
        met: cpuShare <= CPU_TARGET,
      },
    ],
    notes: [
      'of its own: anonymous pages. PSS shares what other running processes map too, e.g. the same Node.js.',
    ],
  };
}

/** The ids of a process's threads. */
function readTasks(pid: number): string[] {
  return readdirSync(`/proc/${pid}/task`);
}

function plain(
  label: string,
  measured: string,
  values: Report['rows'][number]['values'],
): Report['rows'][number] {
  return { label, cells: { measured }, values };
}
