/** fentry and fexit: the kernel function that the program was loaded for (since 5.5, with BTF). */
import { type Descriptor, openRawTracepoint } from '../../../../lib/ebpf/bpf-call.ts';
import { granted } from '../../../../lib/ebpf/refusal.ts';

/**
 * @returns the link, which the caller pins and disposes.
 * @throws {KernelRefusal}
 */
export function attachTracing(program: Descriptor, functionName: string): Descriptor {
  return granted(`cannot attach to ${functionName}`, openRawTracepoint(program, null));
}
