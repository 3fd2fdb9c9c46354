/** uprobe and uretprobe: probes at a place in an executable file or library. */
import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { attachPerfEvent, dynamicEvent } from './perf-event.ts';

interface UprobePlace {
  /** A path like `/proc/self/fd/N`, for an open file, does not keep a container's mount busy. */
  readonly path: string;
  /** In bytes, from the start of the file. */
  readonly fileOffset: bigint;
  readonly atReturn: boolean;
  /** Undefined: every process that executes the file, including those of other containers. */
  readonly pid: number | undefined;
}

/**
 * @returns the link, which the caller pins and disposes of.
 * @throws {KernelRefusal} EINVAL: the file cannot be executed, or does not contain the offset; ESRCH: no such process.
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
