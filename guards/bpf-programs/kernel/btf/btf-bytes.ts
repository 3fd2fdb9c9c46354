/** Converts keys and values of maps from JSON to bytes, by their BTF types: the reverse of {@link valueOf}. */
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { isObject } from '../../../../lib/json/json.ts';
import type { Btf, BtfType } from './btf.ts';
import { DEEPEST, sizeOf } from './btf-value.ts';

export interface Written {
  readonly btf: Btf;
  /** The path of the value, for messages: `value.port`. */
  readonly path: string;
  /** Whether a structure must have all its members; otherwise omitted members keep their bytes. */
  readonly isComplete: boolean;
}

/** A member of a structure, or of an anonymous structure inside of it. */
interface Field {
  readonly name: string;
  readonly typeId: number;
  readonly bitOffset: number;
  /** The width of a bit field; 0 for a member that is as wide as its type. */
  readonly bits: number;
  /** Whether other members have the same offset. */
  readonly isShared: boolean;
}

/**
 * Writes a value, in the form in which {@link valueOf} shows it, into bytes. Integers are numbers, or decimal or hexadecimal texts.
 *
 * @throws {RampartError} `INPUT` if it does not fit the type; the error names the member.
 */
export function putValue(at: Written, typeId: number, value: unknown, bytes: Buffer, depth = 0): void {
  const { btf, path } = at;
  const type = btf.resolved(typeId);
  if (depth > DEEPEST) throw refused(path, 'is nested too deeply');
  switch (type.kind) {
    case 'int': {
      const given = type.as === 'boolean' && typeof value === 'boolean' ? Number(value) : value;
      putInteger(at, given, bytes, { bitOffset: 0, bits: type.sizeBytes * 8, signed: type.as === 'signed' });
      return;
    }
    case 'enum': {
      const named = [...type.values].find(([, name]) => name === value)?.[0];
      if (named === undefined && typeof value === 'string' && !integerText.test(value))
        throw refused(path, `is ${shown(value)}`, `Use one of: ${[...type.values.values()].join(', ')}`);
      const range = { bitOffset: 0, bits: type.sizeBytes * 8, signed: type.signed };
      putInteger(at, named === undefined ? value : signedBy(type, named), bytes, range);
      return;
    }
    case 'pointer':
      putInteger(at, value, bytes, { bitOffset: 0, bits: 64, signed: false });
      return;
    case 'float': {
      if (typeof value !== 'number') throw refused(path, `is ${shown(value)}, and must be a number`);
      if (type.sizeBytes === 4) bytes.writeFloatLE(value, 0);
      else bytes.writeDoubleLE(value, 0);
      return;
    }
    case 'array':
      putArray(at, type, value, bytes, depth);
      return;
    case 'struct':
    case 'union':
      putFields(at, fieldsOf(btf, type, 0, false, depth), value, bytes, depth);
      return;
    case 'section': {
      const fields = type.variables.flatMap(({ typeId: id, offset }): Field[] => {
        const { kind, name } = btf.types[id] ?? { kind: 'other', name: '' };
        return kind === 'variable'
          ? [{ name, typeId: id, bitOffset: offset * 8, bits: 0, isShared: false }]
          : [];
      });
      putFields(at, fields, value, bytes, depth);
      return;
    }
    case 'void':
    case 'other':
    case 'alias':
    case 'variable':
    case 'function':
    case 'prototype':
      // A type without values is shown as null, so only null may be written.
      if (value !== null) throw refused(path, 'has a type without a value');
  }
}

const integerText = /^-?(?:0x[0-9a-f]+|\d+)$/i;

/** @throws {RampartError} `INPUT` if it is not an integer */
function integerOf(path: string, value: unknown): bigint {
  if (typeof value === 'bigint') return value;
  if (typeof value === 'number' && Number.isSafeInteger(value)) return BigInt(value);
  if (typeof value === 'string' && integerText.test(value))
    return value.startsWith('-') ? -BigInt(value.slice(1)) : BigInt(value);
  throw refused(path, `is ${shown(value)}, and must be an integer`, 'Write it as 17, -5 or "0x11"');
}

function putInteger(
  { path }: Written,
  given: unknown,
  bytes: Buffer,
  {
    bitOffset,
    bits,
    signed,
  }: { readonly bitOffset: number; readonly bits: number; readonly signed: boolean },
): void {
  const value = integerOf(path, given);
  const fits = signed ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value);
  if (fits !== value) {
    const [min, max] = signed
      ? [-(1n << BigInt(bits - 1)), (1n << BigInt(bits - 1)) - 1n]
      : [0n, (1n << BigInt(bits)) - 1n];
    throw refused(path, `is ${value}, and must be from ${min} to ${max}`);
  }
  for (let bit = 0; bit < bits;) {
    const at = bitOffset + bit;
    const width = Math.min(8 - (at & 7), bits - bit);
    const part = Number((value >> BigInt(bit)) & ((1n << BigInt(width)) - 1n));
    const mask = ((1 << width) - 1) << (at & 7);
    bytes[at >> 3] = ((bytes[at >> 3] ?? 0) & ~mask) | (part << (at & 7));
    bit += width;
  }
}

/** BTF stores values of 32 bits without a sign of their own: the type decides about it. */
function signedBy({ sizeBytes, signed }: Extract<BtfType, { kind: 'enum' }>, value: bigint): bigint {
  return signed ? value : BigInt.asUintN(sizeBytes * 8, value);
}

function putArray(
  at: Written,
  { typeId, count }: Extract<BtfType, { kind: 'array' }>,
  value: unknown,
  bytes: Buffer,
  depth: number,
): void {
  const { btf, path } = at;
  const element = btf.resolved(typeId);
  if (typeof value === 'string' && element.kind === 'int' && element.sizeBytes === 1) {
    const text = Buffer.from(value);
    if (text.length > count) throw refused(path, `has ${text.length} bytes, and the array has ${count}`);
    bytes.fill(0, 0, count);
    text.copy(bytes);
    return;
  }
  if (!Array.isArray(value)) throw refused(path, `is ${shown(value)}, and must be an array of ${count}`);
  if (value.length !== count) throw refused(path, `has ${value.length} elements, and must have ${count}`);
  const sizeBytes = sizeOf(btf, typeId);
  for (const [index, item] of value.entries()) {
    const inner = { ...at, path: `${path}[${index}]` };
    putValue(inner, typeId, item, bytes.subarray(index * sizeBytes, (index + 1) * sizeBytes), depth + 1);
  }
}

/** The fields of a structure; anonymous members are replaced by their own members. */
function fieldsOf(
  btf: Btf,
  { kind, members }: Extract<BtfType, { kind: 'struct' | 'union' }>,
  bitOffset: number,
  inUnion: boolean,
  depth: number,
): readonly Field[] {
  const isShared = inUnion || kind === 'union';
  return members.flatMap((member): readonly Field[] => {
    const { name, typeId, bits } = member;
    const at = bitOffset + member.bitOffset;
    if (name !== '') return [{ name, typeId, bitOffset: at, bits, isShared }];
    const inner = btf.resolved(typeId);
    const isNested = (inner.kind === 'struct' || inner.kind === 'union') && depth <= DEEPEST;
    return isNested ? fieldsOf(btf, inner, at, isShared, depth + 1) : [];
  });
}

function putFields(
  at: Written,
  fields: readonly Field[],
  value: unknown,
  bytes: Buffer,
  depth: number,
): void {
  const { path, isComplete } = at;
  const names = fields.map(({ name }) => name);
  if (!isObject(value))
    throw refused(path, `is ${shown(value)}, and must be an object`, `Members: ${names.join(', ')}`);
  for (const name of Object.keys(value))
    if (!names.includes(name))
      throw refused(`${path}.${name}`, 'is not in the type', `Members: ${names.join(', ')}`);
  const missing = fields.find(({ name, isShared }) => !isShared && !Object.hasOwn(value, name));
  if (isComplete && missing !== undefined) throw refused(`${path}.${missing.name}`, 'is missing');
  const given = fields.filter(({ name }) => Object.hasOwn(value, name));
  for (const field of given) putField(at, field, value[field.name], bytes, depth);
  // Members with the same offset must agree, as they do in the output.
  for (const field of given.filter(({ isShared }) => isShared)) {
    const again = Buffer.from(bytes);
    putField(at, field, value[field.name], again, depth);
    if (!again.equals(bytes)) {
      const others = given.filter(({ isShared }) => isShared).map(({ name }) => name);
      throw refused(path, `has different values in one place: ${others.join(', ')}`, 'Give only one of them');
    }
  }
}

function putField(
  at: Written,
  { name, typeId, bitOffset, bits }: Field,
  value: unknown,
  bytes: Buffer,
  depth: number,
): void {
  const inner = { ...at, path: `${at.path}.${name}` };
  if (bits === 0) {
    const start = bitOffset >> 3;
    putValue(inner, typeId, value, bytes.subarray(start, start + sizeOf(at.btf, typeId)), depth + 1);
    return;
  }
  const type = at.btf.resolved(typeId);
  const given = typeof value === 'boolean' ? Number(value) : value;
  putInteger(inner, given, bytes, { bitOffset, bits, signed: type.kind === 'int' && type.as === 'signed' });
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 60)}...` : text;
}

function refused(path: string, why: string, next?: string): RampartError {
  return new RampartError(errorCodes.INPUT, { what: `${path} ${why}`, next });
}
