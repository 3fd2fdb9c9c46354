/** kprobe and kretprobe: a kernel function's entry, an instruction in it, or its return. */
import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { attachPerfEvent, dynamicEvent } from './perf-event.ts';

interface KprobePlace {
  readonly functionName: string;
  /** In bytes; an instruction has to begin there. */
  readonly offset: bigint;
  readonly atReturn: boolean;
}

/**
 * @returns the link, which the caller pins and disposes of.
 * @throws {KernelRefusal} ENOENT: there is no such function, or the kernel has no kprobes; EILSEQ: the offset is inside an instruction;
 * EINVAL: the offset is beyond the function, or given for a return probe.
 */
export function attachKprobe(program: Descriptor, place: KprobePlace): Descriptor {
  const kind = place.atReturn ? 'kretprobe' : 'kprobe';
  const at = `${place.functionName}${place.offset === 0n ? '' : `+${place.offset}`}`;
  const { type, atReturn } = dynamicEvent('kprobe');
  return attachPerfEvent(`cannot attach a ${kind} to ${at}`, program, {
    type,
    config: place.atReturn ? atReturn : 0n,
    name: place.functionName,
    probeOffset: place.offset,
    pid: -1,
    cpu: 0,
  });
}
