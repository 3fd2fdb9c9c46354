/**
 * Determines whether a module's code can change only its memory and its globals: then resetting both resets the
 * instance. Other code may change tables, or drop segments.
 */
import { BinaryError, BinaryReader } from './binary.ts';

/** @param content - The content of the code section. Code with unknown instructions counts as changing more. */
export function changesOnlyMemoryAndGlobals(content: Uint8Array): boolean {
  try {
    const reader = new BinaryReader(content);
    for (let left = reader.u32(); left > 0; left--) {
      if (!bodyChangesOnlyThose(reader.take(reader.u32()))) return false;
    }
    return true;
  } catch (error) {
    if (error instanceof BinaryError) return false;
    throw error;
  }
}

function bodyChangesOnlyThose(body: Uint8Array): boolean {
  const reader = new BinaryReader(body);
  if (!skipLocals(reader)) return false;
  while (!reader.atEnd) {
    if (!skipInstruction(reader)) return false;
  }
  return true;
}

/** `(ref ht)` and `(ref null ht)`: types of garbage-collected guests, which no policy language here compiles to. */
function isReference(type: number): boolean {
  return type === 0x63 || type === 0x64;
}

/** Moves to the position after the locals of a function. @returns false for a local of an unknown type */
export function skipLocals(reader: BinaryReader): boolean {
  for (let groups = reader.u32(); groups > 0; groups--) {
    reader.skipLeb();
    if (isReference(reader.byte())) return false;
  }
  return true;
}

/**
 * Skips an instruction. @returns false for one that changes more, or is unknown. The numbers are those of the
 * specification's index of instructions.
 */
export function skipInstruction(reader: BinaryReader): boolean {
  const opcode = reader.byte();
  if (opcode >= 0x45 && opcode <= 0xc4) return true;
  if (opcode >= 0x28 && opcode <= 0x3e) return skipPlace(reader);
  switch (opcode) {
    // These have no operands: unreachable, nop, else, throw_ref, end, return, catch_all, drop, select, ref.is_null.
    case 0x00:
    case 0x01:
    case 0x05:
    case 0x0a:
    case 0x0b:
    case 0x0f:
    case 0x19:
    case 0x1a:
    case 0x1b:
    case 0xd1:
      return true;
    // These have a type: block, loop, if, try.
    case 0x02:
    case 0x03:
    case 0x04:
    case 0x06: {
      const type = reader.byte();
      if (isReference(type)) return false;
      // An opcode of more than seven bits.
      if (type >= 0x80) reader.skipLeb();
      return true;
    }
    case 0x0e:
      for (let left = reader.u32(); left >= 0; left--) reader.skipLeb();
      return true;
    case 0x11:
    case 0x13:
      reader.skipLeb();
      reader.skipLeb();
      return true;
    case 0x1c:
      for (let left = reader.u32(); left > 0; left--) if (isReference(reader.byte())) return false;
      return true;
    case 0x43:
      reader.take(4);
      return true;
    case 0x44:
      reader.take(8);
      return true;
    case 0xfc:
      return skipBulk(reader);
    case 0xfd:
      return skipVector(reader);
    case 0xfe:
      // atomic.fence is followed by a byte, all others by an address.
      return reader.u32() === 3 ? reader.byte() >= 0 : skipPlace(reader);
    default:
      if (!withOneNumber.has(opcode)) return false;
      reader.skipLeb();
      return true;
  }
}

/**
 * catch, throw, rethrow, br, br_if, call, return_call, delegate, local.get, local.set, local.tee, global.get, global.set,
 * table.get, memory.size, memory.grow, i32.const, i64.const, ref.null, ref.func. Not table.set (0x26).
 */
const withOneNumber: ReadonlySet<number> = new Set([
  0x07, 0x08, 0x09, 0x0c, 0x0d, 0x10, 0x12, 0x18, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x3f, 0x40, 0x41, 0x42,
  0xd0, 0xd2,
]);

/** Skips alignment and offset, and the memory index between them, which is there if bit 6 of the alignment is set. */
function skipPlace(reader: BinaryReader): boolean {
  if ((reader.u32() & 0x40) !== 0) reader.skipLeb();
  reader.skipLeb();
  return true;
}

function skipBulk(reader: BinaryReader): boolean {
  const operation = reader.u32();
  // Saturating conversions have no operands.
  if (operation <= 7) return true;
  // memory.init and memory.copy have two numbers, memory.fill and table.size one.
  if (operation === 8 || operation === 10) reader.skipLeb();
  else if (operation !== 11 && operation !== 16) return false;
  reader.skipLeb();
  return true;
}

function skipVector(reader: BinaryReader): boolean {
  const operation = reader.u32();
  if (operation <= 11 || operation === 92 || operation === 93) return skipPlace(reader);
  if (operation >= 84 && operation <= 91) {
    skipPlace(reader);
    reader.byte();
  } else if (operation === 12 || operation === 13) reader.take(16);
  else if (operation >= 21 && operation <= 34) reader.byte();
  return true;
}
