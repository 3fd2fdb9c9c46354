/** uprobe and uretprobe: a place in a file that processes execute. */
import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { attachPerfEvent, dynamicEvent } from './perf-event.ts';

interface UprobePlace {
  /** `/proc/self/fd/N` of an open file keeps no mount of a container busy. */
  readonly path: string;
  /** In the file. */
  readonly fileOffset: bigint;
  readonly atReturn: boolean;
  /** Undefined: of every process that executes the file, those of other containers included. */
  readonly pid: number | undefined;
}

/**
 * @returns the link, which the caller pins and disposes.
 * @throws {KernelRefusal} EINVAL: the file cannot be executed from, or the offset is not in it; ESRCH: no such process.
 */
export function attachUprobe(program: Descriptor, place: UprobePlace, shown: string): Descriptor {
  const { type, atReturn } = dynamicEvent('uprobe');
  const kind = place.atReturn ? 'uretprobe' : 'uprobe';
  return attachPerfEvent(`cannot attach a ${kind} to ${shown}`, program, {
    type,
    config: place.atReturn ? atReturn : 0n,
    name: place.path,
    probeOffset: place.fileOffset,
    pid: place.pid ?? -1,
    cpu: place.pid === undefined ? 0 : -1,
  });
}
