/** Attaches programs to perf events by links that can be pinned (since 5.15): kprobes, uprobes and tracepoints are such events. */
import { readFileSync } from 'node:fs';
import { constants } from 'node:os';

import {
  createLink,
  type Descriptor,
  openPerfEvent,
  type PerfEventRequest,
} from '../../../../lib/ebpf/bpf-call.ts';
import { libc } from '../../../../lib/ebpf/ffi.ts';
import { granted, KernelRefusal } from '../../../../lib/ebpf/refusal.ts';

const BPF_PERF_EVENT = 41;
const PERF_EVENT_IOC_ENABLE = 0x2400;

/**
 * The number of a dynamic event type, and the bit of `config` that means "at return".
 *
 * @throws {KernelRefusal} ENOENT if the kernel was built without it.
 */
export function dynamicEvent(kind: 'kprobe' | 'uprobe'): {
  readonly type: number;
  readonly atReturn: bigint;
} {
  const directory = `/sys/bus/event_source/devices/${kind}`;
  let format: string;
  let type: string;
  try {
    type = readFileSync(`${directory}/type`, 'latin1');
    format = readFileSync(`${directory}/format/retprobe`, 'latin1');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new KernelRefusal(`there is no ${directory}`, { errno: constants.errno.ENOENT, log: '' });
  }
  // The format is "config:0", for example.
  return { type: Number(type), atReturn: 1n << BigInt(/^config:(\d+)/.exec(format)?.[1] ?? 0) };
}

/**
 * Opens an event, attaches the program to it and enables it.
 *
 * @returns the link, which the caller pins and disposes of; it keeps the event open.
 */
export function attachPerfEvent(what: string, program: Descriptor, request: PerfEventRequest): Descriptor {
  using event = granted(what, openPerfEvent(request));
  const link = granted(what, createLink(program, event.fd, BPF_PERF_EVENT));
  if (libc.ioctl(event.fd, PERF_EVENT_IOC_ENABLE, 0) < 0) {
    link[Symbol.dispose]();
    throw new KernelRefusal(what, { errno: constants.errno.EIO, log: '' });
  }
  return link;
}
