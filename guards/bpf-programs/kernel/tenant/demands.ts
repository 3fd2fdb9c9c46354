/**
 * The requirements of instructions beyond arithmetic: helpers, functions and variables of the kernel, loops
 * without a bound.
 */
import { helperName } from '../../../../lib/ebpf/helper-names.ts';
import { INSTRUCTION_BYTES } from '../../../../lib/ebpf/instructions.ts';

const CALL = 0x85;
const LOAD_IMMEDIATE_64 = 0x18;
/** BPF_JMP | BPF_JCOND, since 6.9: goes round up to 8 million times, and each of them may go round another one. */
const MAY_GOTO = 0xe5;

/** `src_reg` of a call. */
const HELPER = 0;
const KERNEL_FUNCTION = 2;
/** `src_reg` of a load whose immediate is a reference, not a number. */
const MAP = 1;
const MAP_VALUE = 2;
const FUNCTION = 4;

export const unboundedLoop = 'may_goto';

interface Demands {
  /** Names of helpers; {@link unboundedLoop}. */
  readonly calls: ReadonlySet<string>;
  /** A function of the kernel by its number, or another thing that has a number only in the kernel: a variable, an index of a table. */
  readonly ofKernel: boolean;
  /** Descriptors of maps. */
  readonly maps: ReadonlySet<number>;
}

/**
 * Reads every eight bytes as an instruction, including the second half of a 64-bit load: in a truncated load, another function may begin
 * there. A real second half does no harm, as its opcode is 0.
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
 * Makes calls of some helpers do nothing and return 0. In place.
 *
 * @param isDropped - By the name of a helper.
 */
export function dropCalls(code: readonly Buffer[], isDropped: (name: string) => boolean): void {
  for (const { bytes, at } of instructions(code)) {
    const isHelperCall = bytes[at] === CALL && bytes.readUInt8(at + 1) >> 4 === HELPER;
    // r0 = 0
    if (isHelperCall && isDropped(helperName(bytes.readInt32LE(at + 4)))) bytes.writeBigUInt64LE(0xb7n, at);
  }
}

function* instructions(code: readonly Buffer[]): Generator<{ readonly bytes: Buffer; readonly at: number }> {
  for (const bytes of code)
    for (let at = 0; at + INSTRUCTION_BYTES <= bytes.length; at += INSTRUCTION_BYTES) yield { bytes, at };
}
