/** What instructions require beyond arithmetic: helpers, functions and variables of the kernel, loops without a bound. */
import { helperName } from '../../../../lib/ebpf/helper-names.ts';
import { INSTRUCTION_BYTES } from '../../../../lib/ebpf/instructions.ts';

const CALL = 0x85;
const LOAD_IMMEDIATE_64 = 0x18;
/** BPF_JMP | BPF_JCOND, since 6.9: a loop of up to 8 million iterations, which may contain further such loops. */
const MAY_GOTO = 0xe5;

/** `src_reg` of a call to a helper. */
const HELPER = 0;
const KERNEL_FUNCTION = 2;
/** `src_reg` of a load whose immediate is a reference, not a number. */
const MAP = 1;
const MAP_VALUE = 2;
const FUNCTION = 4;

export const unboundedLoop = 'may_goto';

interface Demands {
  /** Names of helpers; {@link unboundedLoop} if there is such a loop. */
  readonly calls: ReadonlySet<string>;
  /**
   * Whether something of the kernel is referred to by a number: a function, a variable, an index in a table. Such numbers exist only after
   * loading.
   */
  readonly ofKernel: boolean;
  /** Descriptors of the maps that are used. */
  readonly maps: ReadonlySet<number>;
}

/**
 * Reads every eight bytes as an instruction, including the second half of a 64-bit load: if a load is truncated, another function may begin
 * there. The second half of a complete load does no harm, since its opcode is 0.
 */
export function demandsOf(sections: readonly Buffer[]): Demands {
  const calls = new Set<string>();
  const maps = new Set<number>();
  let ofKernel = false;
  for (const { bytes, at } of instructions(sections)) {
    const source = bytes.readUInt8(at + 1) >> 4;
    const immediate = bytes.readInt32LE(at + 4);
    const code = bytes.readUInt8(at);
    if (code === MAY_GOTO) calls.add(unboundedLoop);
    else if (code === CALL && source === HELPER) calls.add(helperName(immediate));
    else if (code === CALL) ofKernel ||= source === KERNEL_FUNCTION;
    else if (code === LOAD_IMMEDIATE_64) {
      if (source === MAP || source === MAP_VALUE) maps.add(immediate);
      else ofKernel ||= source !== 0 && source !== FUNCTION;
    }
  }
  return { calls, ofKernel, maps };
}

/**
 * Replaces calls of some helpers by "return 0", in place.
 *
 * @param isDropped - Whether to replace calls of the helper with this name.
 */
export function dropCalls(code: readonly Buffer[], isDropped: (name: string) => boolean): void {
  for (const { bytes, at } of instructions(code)) {
    const isHelperCall = bytes[at] === CALL && bytes.readUInt8(at + 1) >> 4 === HELPER;
    // The instruction r0 = 0.
    if (isHelperCall && isDropped(helperName(bytes.readInt32LE(at + 4)))) bytes.writeBigUInt64LE(0xb7n, at);
  }
}

function* instructions(code: readonly Buffer[]): Generator<{ readonly bytes: Buffer; readonly at: number }> {
  for (const bytes of code)
    for (let at = 0; at + INSTRUCTION_BYTES <= bytes.length; at += INSTRUCTION_BYTES) yield { bytes, at };
}
