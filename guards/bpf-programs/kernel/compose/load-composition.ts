/** Loads what {@link composeChain} and {@link composeGated} made (BPF_PROG_LOAD). */
import { constants } from 'node:os';

import {
  bpf,
  command,
  Descriptor,
  loadBtf,
  nulTerminated,
  type Outcome,
  Structure,
} from '../../../../lib/ebpf/bpf-call.ts';
import type { Composition } from './compose.ts';
import { granted, KernelRefusal } from '../../../../lib/ebpf/refusal.ts';

interface LoadOptions {
  /** enum bpf_prog_type. */
  readonly type: number;
  readonly expectedAttachType?: number;
  /** Letters, digits and underscores; at most 15. */
  readonly name: string;
  /** Whether every member's licence is compatible with the GPL: some helpers require it. */
  readonly gpl: boolean;
  /** BPF_F_XDP_HAS_FRAGS and the like. */
  readonly flags?: number;
}

/** Room for the end of any log; from 6.4 on, the kernel keeps the end of a longer one. */
const LOG_BYTES = 4 * 1024 * 1024;
const ATTEMPTS = 5;

/**
 * @returns the program, which the caller disposes of.
 * @throws {KernelRefusal} with the verifier's log.
 */
export function loadComposition(composition: Composition, options: LoadOptions): Descriptor {
  using types = granted(`cannot load the types of ${options.name}`, loadBtf(composition.types));
  const quiet = load(composition, options, types);
  if (quiet instanceof Descriptor) return quiet;
  // Loaded again with a log: writing it takes more time than verifying, so it is requested only for a refused program.
  const reported = load(composition, options, types, new Uint8Array(LOG_BYTES));
  if (reported instanceof Descriptor) return reported;
  throw new KernelRefusal(`cannot load the composed program ${options.name}`, {
    errno: quiet.errno,
    log: reported.log,
  });
}

function load(composition: Composition, options: LoadOptions, types: Descriptor, log?: Uint8Array): Outcome {
  const { instructions, functions } = composition;
  const functionInfo = new Uint32Array(functions.flatMap(({ at, typeId }) => [at, typeId]));
  for (let attempt = 1; ; attempt++) {
    const attr = new Structure(144)
      .u32(0, options.type)
      .u32(4, instructions.count)
      .pointer(8, instructions.bytes)
      .pointer(16, nulTerminated(options.gpl ? 'GPL' : 'Proprietary'))
      .u32(44, options.flags ?? 0)
      .u32(68, options.expectedAttachType ?? 0)
      .u32(72, types.fd)
      .u32(76, 8)
      .pointer(80, new Uint8Array(functionInfo.buffer))
      .u32(88, functions.length);
    if (log !== undefined) attr.u32(24, 1).u32(28, log.byteLength).pointer(32, log);
    attr.bytes.set(Buffer.from(options.name.slice(0, 15), 'latin1'), 48);
    const outcome = bpf(command.PROG_LOAD, attr, log);
    // After a signal, the verifier gives up with EAGAIN; libbpf tries five times as well.
    if (outcome instanceof Descriptor || outcome.errno !== constants.errno.EAGAIN || attempt === ATTEMPTS)
      return outcome;
  }
}
