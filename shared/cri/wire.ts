/**
 * Messages as bytes, by the table in `schema.ts`: https://protobuf.dev/programming-guides/encoding/
 *
 * Own code instead of @bufbuild/protobuf, which the tests run against it: see docs/decisions.
 *
 * @module
 */
import { errorCodes, RampartError } from '../observe/errors.ts';
import { type Field, type Message, type MessageInit, type MessageName, messages } from './schema.ts';

/** Wire types: how long a field is. */
const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;
const FIXED32 = 5;

/** A field as it is looked up by its number. */
interface Slot {
  readonly name: string;
  readonly type: string;
  readonly isList: boolean;
}

interface Layout {
  readonly slots: ReadonlyMap<number, Slot>;
  /** What an object has before anything is read. */
  readonly scalars: Readonly<Record<string, unknown>>;
  /** Fields that begin as an empty object or array of their own. */
  readonly containers: readonly Slot[];
}

const zeroes: Readonly<Record<string, unknown>> = {
  string: '',
  bool: false,
  int32: 0,
  uint32: 0,
  int64: 0n,
  bytes: new Uint8Array(),
};

const layouts = new Map<string, Layout>();

function layoutOf(name: string): Layout {
  let layout = layouts.get(name);
  if (layout === undefined) {
    const fields = Object.entries<Field>(messages[name as MessageName]);
    const slots = new Map<number, Slot>(
      fields.map(([field, [number, type, list]]) => [number, { name: field, type, isList: list === 'list' }]),
    );
    layout = {
      slots,
      scalars: Object.fromEntries(fields.map(([field, [, type]]) => [field, zeroes[type]])),
      containers: [...slots.values()].filter(({ type, isList }) => isList || type === 'map'),
    };
    layouts.set(name, layout);
  }
  return layout;
}

/** The bytes of a message. */
export function encode<Name extends MessageName>(name: Name, message: MessageInit<Name>): Buffer {
  const parts: Buffer[] = [];
  write(parts, name, message);
  return Buffer.concat(parts);
}

function write(parts: Buffer[], name: string, message: Readonly<Record<string, unknown>>): void {
  for (const [number, { name: field, type, isList }] of layoutOf(name).slots) {
    const value = message[field];
    if (value === undefined) continue;
    if (isList) for (const item of value as readonly unknown[]) writeField(parts, number, type, item);
    else if (type === 'map') {
      for (const [key, text] of Object.entries(value as Readonly<Record<string, string>>)) {
        const entry: Buffer[] = [];
        writeField(entry, 1, 'string', key);
        writeField(entry, 2, 'string', text);
        writeBytes(parts, number, Buffer.concat(entry));
      }
    } else if (value !== zeroes[type]) writeField(parts, number, type, value);
  }
}

function writeField(parts: Buffer[], number: number, type: string, value: unknown): void {
  switch (type) {
    case 'string':
      writeBytes(parts, number, Buffer.from(value as string));
      break;
    case 'bytes':
      writeBytes(parts, number, value as Uint8Array);
      break;
    case 'bool':
    case 'int32':
    case 'uint32':
    case 'int64':
      // A negative number is written with all its 64 bits.
      parts.push(
        varint(BigInt((number << 3) | VARINT)),
        varint(BigInt.asUintN(64, BigInt(value as number | bigint | boolean))),
      );
      break;
    default: {
      const inner: Buffer[] = [];
      write(inner, type, value as Readonly<Record<string, unknown>>);
      writeBytes(parts, number, Buffer.concat(inner));
    }
  }
}

function writeBytes(parts: Buffer[], number: number, bytes: Uint8Array): void {
  parts.push(varint(BigInt((number << 3) | LENGTH)), varint(BigInt(bytes.length)), Buffer.from(bytes));
}

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

/**
 * A message from its bytes. Fields that the table does not have are passed over.
 *
 * @throws {RampartError} `DECODE` for bytes that are no such message.
 */
export function decode<Name extends MessageName>(name: Name, bytes: Uint8Array): Message<Name> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return read(new Reader(buffer, name), name, buffer.length) as Message<Name>;
}

class Reader {
  readonly bytes: Buffer;
  at = 0;
  readonly #what: string;

  constructor(bytes: Buffer, what: string) {
    this.bytes = bytes;
    this.#what = what;
  }

  /** A varint that fits into 53 bits: lengths, tags and what is small by its nature. */
  number(end: number): number {
    let value = 0;
    let factor = 1;
    for (let byte = 0x80; byte >= 0x80; factor *= 128) {
      if (this.at >= end || factor > 2 ** 42) throw this.error('a number that does not end or is too large');
      byte = this.bytes[this.at++] ?? 0;
      value += (byte & 0x7f) * factor;
    }
    return value;
  }

  long(end: number): bigint {
    let value = 0n;
    let shift = 0n;
    for (let byte = 0x80; byte >= 0x80; shift += 7n) {
      if (this.at >= end || shift > 63n) throw this.error('a number that does not end');
      byte = this.bytes[this.at++] ?? 0;
      value |= BigInt(byte & 0x7f) << shift;
    }
    return BigInt.asUintN(64, value);
  }

  /** Where a field of a length ends. */
  lengthEnd(end: number): number {
    const length = this.number(end);
    if (length > end - this.at) throw this.error('a field that is longer than its message');
    return this.at + length;
  }

  skip(wireType: number, end: number): void {
    if (wireType === VARINT) this.long(end);
    else if (wireType === LENGTH) this.at = this.lengthEnd(end);
    else if (wireType === FIXED64) this.at += 8;
    else if (wireType === FIXED32) this.at += 4;
    // Groups (3 and 4) were never in proto3.
    else throw this.error(`a field of the unknown form ${wireType}`);
    if (this.at > end) throw this.error('a field that is longer than its message');
  }

  error(why: string): RampartError {
    return new RampartError(errorCodes.DECODE, {
      what: `answer of the container runtime: no ${this.#what}`,
      why: `it has ${why}, at byte ${this.at}`,
    });
  }
}

function read(reader: Reader, name: string, end: number): Record<string, unknown> {
  const { slots, scalars, containers } = layoutOf(name);
  const message: Record<string, unknown> = { ...scalars };
  for (const { name: field, isList } of containers) message[field] = isList ? [] : {};
  while (reader.at < end) {
    const tag = reader.number(end);
    const wireType = tag % 8;
    const slot = slots.get((tag - wireType) / 8);
    // Of another form than ours it is another field.
    if (slot === undefined || wireType !== wireTypeOf(slot.type)) {
      reader.skip(wireType, end);
      continue;
    }
    if (slot.type === 'map') readEntry(reader, message[slot.name] as Record<string, string>, end);
    else {
      const value = readValue(reader, slot.type, end);
      if (slot.isList) (message[slot.name] as unknown[]).push(value);
      else message[slot.name] = value;
    }
  }
  return message;
}

function wireTypeOf(type: string): number {
  return type === 'bool' || type === 'int32' || type === 'uint32' || type === 'int64' ? VARINT : LENGTH;
}

function readValue(reader: Reader, type: string, end: number): unknown {
  switch (type) {
    case 'bool':
      return reader.long(end) !== 0n;
    case 'int32':
      return Number(BigInt.asIntN(32, reader.long(end)));
    case 'uint32':
      return Number(BigInt.asUintN(32, reader.long(end)));
    case 'int64':
      return BigInt.asIntN(64, reader.long(end));
    default: {
      const fieldEnd = reader.lengthEnd(end);
      const start = reader.at;
      if (type !== 'string' && type !== 'bytes') return read(reader, type, fieldEnd);
      reader.at = fieldEnd;
      return type === 'string'
        ? reader.bytes.toString('utf8', start, fieldEnd)
        : // A copy: the answer it came in may be large.
          new Uint8Array(reader.bytes.subarray(start, fieldEnd));
    }
  }
}

function readEntry(reader: Reader, map: Record<string, string>, end: number): void {
  const entryEnd = reader.lengthEnd(end);
  let [key, value] = ['', ''];
  while (reader.at < entryEnd) {
    const tag = reader.number(entryEnd);
    if (tag === ((1 << 3) | LENGTH)) key = readValue(reader, 'string', entryEnd) as string;
    else if (tag === ((2 << 3) | LENGTH)) value = readValue(reader, 'string', entryEnd) as string;
    else reader.skip(tag % 8, entryEnd);
  }
  // Assigned, `__proto__` would not become a key.
  if (key === '__proto__') Object.defineProperty(map, key, { value, enumerable: true, configurable: true });
  else map[key] = value;
}
