/** XDP programs run by the kernel on a packet of ours (BPF_PROG_TEST_RUN), which times them itself. */
import { bpfDo, type Descriptor, Structure } from '../../lib/ebpf/bpf-call.ts';
import { done } from '../../lib/ebpf/refusal.ts';

const BPF_PROG_TEST_RUN = 10;
const ATTR_BYTES = 80;

/** A frame of the ethertype that `xdp_count` counts. */
export function countedFrame(): Uint8Array {
  const frame = Buffer.alloc(64, 0xff);
  frame.writeUInt16BE(0x88b5, 12);
  return frame;
}

/**
 * The program's return value, and ns for each of `repeat` runs.
 *
 * @throws {KernelRefusal}
 */
export function testRun(
  program: Pick<Descriptor, 'fd'>,
  repeat: number,
): { readonly result: number; readonly nsPerRun: number } {
  const frame = countedFrame();
  const attr = new Structure(ATTR_BYTES)
    .u32(0, program.fd)
    .u32(8, frame.byteLength)
    .pointer(16, frame)
    .u32(32, repeat);
  done('cannot run the program', bpfDo(BPF_PROG_TEST_RUN, attr));
  return { result: attr.u32At(4), nsPerRun: attr.u32At(36) };
}
