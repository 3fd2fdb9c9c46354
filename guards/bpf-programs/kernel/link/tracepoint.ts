/**
 * Attaches to tracepoints of the kernel. Only tracefs knows their numbers; if it is not mounted, it is mounted briefly and invisibly
 * (fsopen(2), since 5.2), so that nothing remains on the machine.
 */
import { existsSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';

import { type Descriptor, outcomeOf } from '../../../../lib/ebpf/bpf-call.ts';
import { libc, syscallNumbers } from '../../../../lib/ebpf/ffi.ts';
import { Fd, resolveFlags, tryOpenat2 } from '../../../../lib/ebpf/libc.ts';
import { granted, KernelRefusal } from '../../../../lib/ebpf/refusal.ts';
import { attachPerfEvent } from './perf-event.ts';

const PERF_TYPE_TRACEPOINT = 2;
const mountPoints = ['/sys/kernel/tracing', '/sys/kernel/debug/tracing'] as const;
const FSOPEN_CLOEXEC = 1;
const FSCONFIG_CMD_CREATE = 6;
const FSMOUNT_CLOEXEC = 1;

/**
 * @param name - `syscalls/sys_enter_openat`
 * @returns the link, which the caller pins and disposes.
 * @throws {KernelRefusal} ENOENT: no such tracepoint; EPERM: no tracefs, and no CAP_SYS_ADMIN to mount it.
 */
export function attachTracepoint(program: Descriptor, name: string): Descriptor {
  return attachPerfEvent(`cannot attach to the tracepoint ${name}`, program, {
    type: PERF_TYPE_TRACEPOINT,
    config: tracepointId(name),
    pid: -1,
    cpu: 0,
  });
}

function tracepointId(name: string): bigint {
  return BigInt(readEvent(name, 'id').trim());
}

export interface RecordField {
  readonly name: string;
  /** From the beginning of the record, in bytes. */
  readonly offset: number;
  readonly sizeBytes: number;
}

/**
 * The fields of a tracepoint's record, as programs see it.
 *
 * @throws {KernelRefusal} as {@link attachTracepoint}.
 */
export function recordFields(name: string): readonly RecordField[] {
  const lines = readEvent(name, 'format').matchAll(/^\tfield:(.*);\toffset:(\d+);\tsize:(\d+);/gm);
  return Array.from(lines, ([, declaration = '', offset, sizeBytes]) => ({
    name: /(\w+)(?:\[.*\])?$/.exec(declaration)?.[1] ?? declaration,
    offset: Number(offset),
    sizeBytes: Number(sizeBytes),
  }));
}

function readEvent(name: string, what: 'format' | 'id'): string {
  if (!/^[\w-]+\/[\w-]+$/.test(name)) throw missing(name);
  const mounted = mountPoints.find((directory) => existsSync(`${directory}/events`));
  if (mounted !== undefined) {
    const path = `${mounted}/events/${name}/${what}`;
    if (!existsSync(path)) throw missing(name);
    return readFileSync(path, 'latin1');
  }
  using tracefs = mountUnseen();
  const path = `events/${name}/${what}`;
  const fd = tryOpenat2(tracefs.fd, path, { flags: 0, resolve: resolveFlags.NO_MAGICLINKS });
  if (fd < 0) throw missing(name, -fd);
  using file = new Fd(fd);
  return readFileSync(file.number, 'latin1');
}

function mountUnseen(): Descriptor {
  const what = 'cannot mount tracefs, which lists the tracepoints';
  using context = granted(what, outcomeOf(libc.fsopen(syscallNumbers.fsopen, 'tracefs', FSOPEN_CLOEXEC)));
  const made = libc.fsconfig(syscallNumbers.fsconfig, context.fd, FSCONFIG_CMD_CREATE, null, null, 0);
  if (made < 0) granted(what, outcomeOf(made));
  return granted(what, outcomeOf(libc.fsmount(syscallNumbers.fsmount, context.fd, FSMOUNT_CLOEXEC, 0)));
}

function missing(name: string, errno: number = constants.errno.ENOENT): KernelRefusal {
  return new KernelRefusal(`there is no tracepoint ${name}`, { errno, log: '' });
}
