/**
 * Explains why the kernel does not attach a program to a tracepoint: the program reads past the end of the record (EACCES,
 * perf_event_set_bpf_prog of kernel/events/core.c). The kernel does not say where; the program's instructions and types do.
 */
import { INSTRUCTION_BYTES, type Instructions } from '../../../../lib/ebpf/instructions.ts';
import { RampartError } from '../../../../lib/errors/errors.ts';
import { Btf } from '../btf/btf.ts';
import { sizeOf } from '../btf/btf-value.ts';
import type { RecordField } from '../link/tracepoint.ts';

export interface Read {
  readonly offset: number;
  readonly sizeBytes: number;
}

const CALL = 0x85;
const LOAD_IMMEDIATE_64 = 0x18;
const MOVE_64 = 0xbf;
const ADD_64_IMMEDIATE = 0x07;
const STORE_REGISTER_64 = 0x7b;
const STACK = 10;
/** Opcodes that load into a register, with their size in bytes. */
const loads: Readonly<Record<number, number>> = {
  0x61: 4,
  0x69: 2,
  0x71: 1,
  0x79: 8,
  0x81: 4,
  0x89: 2,
  0x91: 1,
};
/** Classes of instructions that write to their first register: LDX, ALU, ALU64. */
const writing: ReadonlySet<number> = new Set([0x01, 0x04, 0x07]);

/** The program's own reads of its context, as far as they can be found without following jumps. */
export function contextReads(instructions: Instructions): readonly Read[] {
  const { bytes, count } = instructions;
  // The functions after the first one have other parameters.
  const end = instructions.functionStarts()[1] ?? count;
  /**
   * Known pointers into the context, with their offsets: keyed by the number of a register, or by a place on the stack (r10 - 8 and so on).
   */
  const pointers = new Map<number | string, number>([[1, 0]]);
  const reads: Read[] = [];
  for (let index = 0; index < end; index++) {
    const at = index * INSTRUCTION_BYTES;
    const code = bytes.readUInt8(at);
    const registers = bytes.readUInt8(at + 1);
    const [to, from] = [registers & 0xf, registers >> 4];
    const offset = bytes.readInt16LE(at + 2);
    const sizeBytes = loads[code];
    const source = pointers.get(from);
    if (code === STORE_REGISTER_64 && to === STACK) move(pointers, `${offset}`, source);
    else if (code === MOVE_64) move(pointers, to, source);
    else if (code === ADD_64_IMMEDIATE) {
      const base = pointers.get(to);
      move(pointers, to, base === undefined ? undefined : base + bytes.readInt32LE(at + 4));
    } else if (sizeBytes !== undefined) {
      if (source !== undefined) reads.push({ offset: source + offset, sizeBytes });
      move(pointers, to, from === STACK ? pointers.get(`${offset}`) : undefined);
    } else if (code === CALL) {
      for (let register = 0; register <= 5; register++) pointers.delete(register);
    } else if (code === LOAD_IMMEDIATE_64) {
      pointers.delete(to);
      index++;
    } else if (writing.has(code & 0x07)) pointers.delete(to);
  }
  return reads;
}

function move<K>(pointers: Map<K, number>, to: K, value: number | undefined): void {
  if (value === undefined) pointers.delete(to);
  else pointers.set(to, value);
}

/**
 * A sentence that names what the program reads past the end of the record, and which fields the record has; undefined if there is no such
 * read.
 *
 * @param types - The BTF of the program.
 */
export function readsBeyond(
  instructions: Instructions,
  fields: readonly RecordField[],
  functionName: string,
  types: Uint8Array | undefined,
): string | undefined {
  const last = fields.toSorted((a, b) => b.offset + b.sizeBytes - (a.offset + a.sizeBytes))[0];
  if (last === undefined) return undefined;
  const endBytes = last.offset + last.sizeBytes;
  const beyond = contextReads(instructions).find(({ offset, sizeBytes }) => offset + sizeBytes > endBytes);
  if (beyond === undefined) return undefined;
  const { offset, sizeBytes } = beyond;
  const member = types && memberAt(types, functionName, offset);
  const what = member === undefined ? '' : `, which is ${member},`;
  const list = fields
    .map((one) => `${one.name} (${one.offset} to ${one.offset + one.sizeBytes - 1})`)
    .join(', ');
  return `The program reads bytes ${offset} to ${offset + sizeBytes - 1} of the record${what} and the record has ${endBytes} bytes: ${list}. Read only its fields, or attach to a tracepoint that has what is read.`;
}

/** What the program takes the bytes for, by the type of its parameter: `arguments[3] of struct sys_enter`. */
function memberAt(types: Uint8Array, functionName: string, offset: number): string | undefined {
  try {
    const btf = new Btf(types);
    const made = btf.types.find((type) => type.kind === 'function' && type.name === functionName);
    const prototype = made?.kind === 'function' ? btf.resolved(made.typeId) : undefined;
    const [first] = prototype?.kind === 'prototype' ? prototype.parameterTypeIds : [];
    const pointer = first === undefined ? undefined : btf.resolved(first);
    if (pointer?.kind !== 'pointer') return undefined;
    const context = btf.resolved(pointer.typeId);
    const path = pathAt(btf, pointer.typeId, offset);
    return path === '' || path === undefined ? undefined : `${path} of struct ${context.name}`;
  } catch (error) {
    if (error instanceof RampartError) return undefined;
    throw error;
  }
}

/** Undefined if the type ends before the offset. */
function pathAt(btf: Btf, typeId: number, offset: number, depth = 0): string | undefined {
  const type = btf.resolved(typeId);
  if (depth > 8) return undefined;
  if (type.kind === 'array') {
    const sizeBytes = sizeOf(btf, type.typeId);
    const index = sizeBytes === 0 ? type.count : Math.floor(offset / sizeBytes);
    if (index >= type.count) return undefined;
    return `[${index}]${pathAt(btf, type.typeId, offset % sizeBytes, depth + 1) ?? ''}`;
  }
  if (type.kind !== 'struct') return offset < sizeOf(btf, typeId) ? '' : undefined;
  for (const { name, typeId: of, bitOffset } of type.members) {
    const inside = offset - (bitOffset >> 3);
    if (inside < 0 || inside >= sizeOf(btf, of)) continue;
    const below = pathAt(btf, of, inside, depth + 1) ?? '';
    const isMember = below !== '' && !below.startsWith('[') && name !== '';
    return `${name}${isMember ? '.' : ''}${below}`;
  }
  return undefined;
}
