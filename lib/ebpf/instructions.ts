/**
 * eBPF instructions as bytes, eight for each, in the format of the kernel and libbpf (Documentation/bpf/standardization/
 * instruction-set.rst).
 */

export const INSTRUCTION_BYTES = 8;

/** Load of a 64-bit immediate: it takes two instructions. */
const LD_IMM64 = 0x18;
const CALL = 0x85;
/** Values of `src_reg` in LD_IMM64: the immediate refers to a map, a value in a map or a function. */
const PSEUDO_MAP_FD = 1;
const PSEUDO_MAP_VALUE = 2;
const PSEUDO_FUNC = 4;
/** Value of `src_reg` in CALL: the call is to another function of the program. */
const PSEUDO_CALL = 1;

/** Parts of one instruction; omitted ones are 0. */
export interface InstructionParts {
  readonly code: number;
  readonly to?: number;
  readonly from?: number;
  readonly offset?: number;
  readonly immediate?: number;
}

/** Instructions of a program, which are read and written in place. */
export class Instructions {
  readonly bytes: Buffer;

  /** @param bytes - Not copied: changes apply to them. */
  constructor(bytes: Uint8Array) {
    if (bytes.byteLength % INSTRUCTION_BYTES !== 0)
      throw new RangeError('the length of the bytes is not a multiple of 8, the size of an instruction');
    this.bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  static of(parts: readonly InstructionParts[]): Instructions {
    const bytes = Buffer.alloc(parts.length * INSTRUCTION_BYTES);
    parts.forEach(({ code, to = 0, from = 0, offset = 0, immediate = 0 }, index) => {
      const at = index * INSTRUCTION_BYTES;
      bytes.writeUInt8(code, at);
      bytes.writeUInt8((from << 4) | to, at + 1);
      bytes.writeInt16LE(offset, at + 2);
      bytes.writeInt32LE(immediate | 0, at + 4);
    });
    return new Instructions(bytes);
  }

  get count(): number {
    return this.bytes.byteLength / INSTRUCTION_BYTES;
  }

  copy(): Instructions {
    return new Instructions(Uint8Array.from(this.bytes));
  }

  /** The instructions that refer to maps: their index and their immediate, which for the kernel is the map's descriptor. */
  *mapReferences(): Generator<{ readonly index: number; readonly immediate: number }, void> {
    for (const { index, code, from } of this.#walk()) {
      if (code === LD_IMM64 && (from === PSEUDO_MAP_FD || from === PSEUDO_MAP_VALUE))
        yield { index, immediate: this.#immediate(index) };
    }
  }

  setImmediate(index: number, immediate: number): void {
    this.bytes.writeInt32LE(immediate, index * INSTRUCTION_BYTES + 4);
  }

  /** The indexes at which functions begin, ascending: the program itself, functions that it calls, and callbacks of helpers. */
  functionStarts(): readonly number[] {
    const starts = new Set([0]);
    for (const { index, code, from } of this.#walk()) {
      if ((code === CALL && from === PSEUDO_CALL) || (code === LD_IMM64 && from === PSEUDO_FUNC))
        starts.add(index + 1 + this.#immediate(index));
    }
    return [...starts].toSorted((a, b) => a - b);
  }

  #immediate(index: number): number {
    return this.bytes.readInt32LE(index * INSTRUCTION_BYTES + 4);
  }

  *#walk(): Generator<{ readonly index: number; readonly code: number; readonly from: number }, void> {
    for (let index = 0; index < this.count; index++) {
      const at = index * INSTRUCTION_BYTES;
      const code = this.bytes.readUInt8(at);
      yield { index, code, from: this.bytes.readUInt8(at + 1) >> 4 };
      if (code === LD_IMM64) index++;
    }
  }
}
