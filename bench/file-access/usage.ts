/** A process's usage, from /proc. */
import { readdirSync, readFileSync } from 'node:fs';

/** The kernel counts CPU time in ticks of 10 ms (USER_HZ). */
const TICK_MS = 10;

export interface Usage {
  readonly rssMiB: number;
  /**
   * The parts of `rssMiB`: heaps and stacks; files such as Node.js itself, shared with other processes; the
   * mapped ring.
   */
  readonly anonymousMiB: number;
  readonly filesMiB: number;
  readonly sharedMiB: number;
  /** CPU time of all threads, user and system. */
  readonly cpuMs: number;
  /** How often a thread has begun to wait, all threads together. */
  readonly waits: number;
}

/** @throws when there is no such process. */
export function usageOf(pid: number): Usage {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  // Behind the name, which may hold anything but the last parenthesis: utime is the 14th field, stime the 15th.
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  let waits = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    waits += field(readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8'), 'voluntary_ctxt_switches');
  }
  const mib = (name: string): number => field(status, name) / 1024;
  return {
    rssMiB: mib('VmRSS'),
    anonymousMiB: mib('RssAnon'),
    filesMiB: mib('RssFile'),
    sharedMiB: mib('RssShmem'),
    cpuMs: (Number(stat[11]) + Number(stat[12])) * TICK_MS,
    waits,
  };
}

function field(text: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? Number.NaN);
}
