/**
 * The type that each kind of program is loaded as. Section names do not count: people write `classifier/stats`, which libbpf does not know,
 * and `fentry/x` may name another function than the resource does.
 */
import type { AttachType } from '../desired.ts';

interface ProgramType {
  /** enum bpf_prog_type. */
  readonly type: number;
  /** enum bpf_attach_type. */
  readonly expectedAttachType: number;
}

const kprobe: ProgramType = { type: 2, expectedAttachType: 0 };
const classifier: ProgramType = { type: 3, expectedAttachType: 0 };

export const programTypes: Readonly<Record<AttachType, ProgramType>> = {
  kprobe,
  kretprobe: kprobe,
  uprobe: kprobe,
  uretprobe: kprobe,
  tc: classifier,
  tcx: classifier,
  tracepoint: { type: 5, expectedAttachType: 0 },
  // BPF_XDP: programs with 0 would be loaded too, but a link requires this value.
  xdp: { type: 6, expectedAttachType: 37 },
  fentry: { type: 26, expectedAttachType: 24 },
  fexit: { type: 26, expectedAttachType: 25 },
};

/** BPF_F_XDP_HAS_FRAGS: the program supports multi-buffer packets, such as jumbo frames. */
export const XDP_HAS_FRAGS = 32;
