/** Explains errors of the kernel: which capability, configuration or version is missing. */
import { probeFeatures } from '../../../lib/ebpf/features/features.ts';
import type { AttachType } from './desired.ts';
import { ProgramFailure } from './failure.ts';
import {
  type AttachKind,
  attachKinds,
  type Feature,
  type KernelFeatures,
  type ProgramKind,
  programKinds,
} from '../../../lib/ebpf/features/feature.ts';

const kindOf: Readonly<Record<AttachType, ProgramKind>> = {
  fentry: 'fentry',
  fexit: 'fexit',
  kprobe: 'kprobe',
  kretprobe: 'kprobe',
  tc: 'sched_cls',
  tcx: 'sched_cls',
  tracepoint: 'tracepoint',
  uprobe: 'kprobe',
  uretprobe: 'kprobe',
  xdp: 'xdp',
};

/** Probes the kernel once for each program type, when a program of that type was refused. */
export class Refusals {
  readonly #answers = new Map<string, Feature>();
  readonly #probe: (kinds: readonly AttachKind[]) => KernelFeatures;

  constructor(probe: (kinds: readonly AttachKind[]) => KernelFeatures = probeFeatures) {
    this.#probe = probe;
  }

  /**
   * The failure, with the reason if no program of this type can run here.
   *
   * @param type - May be a type that no resource kind has, such as `lsm`; not all types are probed.
   */
  explain(failure: ProgramFailure, type: string): ProgramFailure {
    if ((failure.reason !== 'load' && failure.reason !== 'attach') || failure.mayPass) return failure;
    const answer = this.answer(type);
    if (answer.available) return failure;
    const text = `This kernel does not run ${type} programs (${answer.reason}): ${answer.detail}`;
    const next = nextSteps[answer.reason];
    return new ProgramFailure(
      failure.reason,
      `${failure.message}\n${text}${next === undefined ? '' : ` ${next}`}`,
      false,
      failure,
    );
  }

  /** Whether programs of a type can run here; a type that is not probed counts as available. */
  answer(type: string): Feature {
    let answer = this.#answers.get(type);
    if (answer === undefined) {
      const way = attachKinds.find((name) => name === type);
      const kind = isAttachType(type) ? kindOf[type] : programKinds.find((name) => name === type);
      const { programs, attach } = this.#probe(way === undefined ? [] : [way]);
      const available = { available: true } as const;
      const program = kind === undefined ? available : programs[kind];
      answer = program.available && way !== undefined ? attach[way] : program;
      // Rampart mounts tracefs if it is missing, so its absence means nothing.
      if (!answer.available && answer.reason === 'no_tracefs') answer = { available: true };
      this.#answers.set(type, answer);
    }
    return answer;
  }
}

/** Whether a resource kind has this type. */
export function isAttachType(type: string): type is AttachType {
  return Object.hasOwn(kindOf, type);
}

const nextSteps: Partial<Record<string, string>> = {
  no_kprobes: 'It needs a kernel with CONFIG_KPROBES and CONFIG_KPROBE_EVENTS.',
  no_uprobes: 'It needs a kernel with CONFIG_UPROBES and CONFIG_UPROBE_EVENTS.',
  no_btf: 'It needs a kernel with CONFIG_DEBUG_INFO_BTF.',
  refused: 'A hardened kernel forbids this program type; use another type, or a kernel that allows it.',
  lockdown: 'It needs a kernel that is not locked down to confidentiality.',
};
