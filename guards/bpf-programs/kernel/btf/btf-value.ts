/** Converts values of maps to JSON, by their BTF types. */
import type { Btf, BtfMember, BtfType } from './btf.ts';

/** A value in JSON. Integers beyond 2 ** 53 are decimal texts. */
export type JsonValue =
  string | number | boolean | null | readonly JsonValue[] | { readonly [name: string]: JsonValue };

/** Limit of nested structures; deeper ones are not decoded. */
export const DEEPEST = 32;
/** Maximum number of elements shown of one array. */
const MAX_ELEMENTS = 4096;

/** Decodes a value of a type; parts beyond the end of the bytes are null. */
export function valueOf(btf: Btf, typeId: number, bytes: Buffer, depth = 0): JsonValue {
  if (depth > DEEPEST) return null;
  const type = btf.resolved(typeId);
  switch (type.kind) {
    case 'int': {
      const value = integer(bytes, type.sizeBytes, type.as === 'signed');
      return value === null ? null : type.as === 'boolean' ? value !== 0n : number(value);
    }
    case 'enum': {
      const value = integer(bytes, type.sizeBytes, type.signed);
      return value === null ? null : (type.values.get(value) ?? number(value));
    }
    case 'float':
      if (bytes.length < type.sizeBytes) return null;
      return type.sizeBytes === 4 ? bytes.readFloatLE(0) : bytes.readDoubleLE(0);
    case 'pointer': {
      const value = integer(bytes, 8, false);
      return value === null ? null : `0x${value.toString(16)}`;
    }
    case 'array':
      return arrayOf(btf, type, bytes, depth);
    case 'struct':
    case 'union':
      return Object.fromEntries(type.members.flatMap((member) => fieldsOf(btf, member, bytes, depth)));
    case 'void':
    case 'other':
    case 'alias':
    case 'variable':
    case 'function':
    case 'prototype':
      return null;
    case 'section':
      return Object.fromEntries(
        type.variables.flatMap(({ typeId: id, offset, sizeBytes }) => {
          const variable = btf.types[id];
          if (variable?.kind !== 'variable') return [];
          return [[variable.name, valueOf(btf, id, bytes.subarray(offset, offset + sizeBytes), depth + 1)]];
        }),
      );
  }
}

/** The size of a type in bytes; 0 for a type without a size. */
export function sizeOf(btf: Btf, typeId: number, depth = 0): number {
  const type = btf.resolved(typeId);
  if ('sizeBytes' in type) return type.sizeBytes;
  if (type.kind === 'pointer') return 8;
  if (type.kind === 'array' && depth < DEEPEST) return type.count * sizeOf(btf, type.typeId, depth + 1);
  return 0;
}

function fieldsOf(
  btf: Btf,
  member: BtfMember,
  bytes: Buffer,
  depth: number,
): readonly (readonly [string, JsonValue])[] {
  const { name, typeId, bitOffset, bits } = member;
  const value =
    bits > 0
      ? bitField(btf.resolved(typeId), bytes, bitOffset, bits)
      : valueOf(btf, typeId, bytes.subarray(bitOffset >> 3), depth + 1);
  if (name !== '') return [[name, value]];
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? Object.entries(value) : [];
}

function arrayOf(
  btf: Btf,
  type: Extract<BtfType, { kind: 'array' }>,
  bytes: Buffer,
  depth: number,
): JsonValue {
  const element = btf.resolved(type.typeId);
  const sizeBytes = sizeOf(btf, type.typeId);
  if (element.kind === 'int' && element.sizeBytes === 1 && element.name === 'char') {
    const text = bytes.subarray(0, type.count);
    const end = text.indexOf(0);
    const shown = text.subarray(0, end < 0 ? text.length : end);
    // The array is a text if it is printable and padded with zeros.
    if (
      shown.every((byte) => byte >= 0x20 && byte < 0x7f) &&
      text.subarray(shown.length).every((byte) => byte === 0)
    )
      return shown.toString('latin1');
  }
  return Array.from({ length: Math.min(type.count, MAX_ELEMENTS) }, (_, at) =>
    valueOf(btf, type.typeId, bytes.subarray(at * sizeBytes, (at + 1) * sizeBytes), depth + 1),
  );
}

function bitField(type: BtfType, bytes: Buffer, bitOffset: number, bits: number): JsonValue {
  let raw = 0n;
  for (let bit = 0; bit < bits; bit++) {
    const at = bitOffset + bit;
    if ((((bytes[at >> 3] ?? 0) >> (at & 7)) & 1) === 1) raw |= 1n << BigInt(bit);
  }
  const signed = type.kind === 'int' && type.as === 'signed';
  return number(signed ? BigInt.asIntN(bits, raw) : raw);
}

function integer(bytes: Buffer, sizeBytes: number, signed: boolean): bigint | null {
  if (bytes.length < sizeBytes) return null;
  let value = 0n;
  for (let at = sizeBytes - 1; at >= 0; at--) value = (value << 8n) | BigInt(bytes[at] ?? 0);
  return signed ? BigInt.asIntN(sizeBytes * 8, value) : value;
}

function number(value: bigint): number | string {
  const small = value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER);
  return small ? Number(value) : String(value);
}
