/**
 * Messages as bytes, by the table in `schema.ts`: https://protobuf.dev/programming-guides/encoding/
 *
 * Own code instead of @bufbuild/protobuf, which the tests run against it: see docs/decisions.
 */
import { setField } from '../json/json.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import { MessageReader, wireTypes } from '../protobuf/reader.ts';
import { MessageWriter } from '../protobuf/writer.ts';
import { type Field, type Message, type MessageInit, type MessageName, messages } from './schema.ts';

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

export function encode<Name extends MessageName>(name: Name, message: MessageInit<Name>): Buffer {
  const writer = new MessageWriter(256);
  write(writer, name, message);
  return writer.bytes();
}

/** From the last field to the first, as the writer goes. */
function write(writer: MessageWriter, name: string, message: Readonly<Record<string, unknown>>): void {
  for (const [number, { name: field, type, isList }] of [...layoutOf(name).slots].toReversed()) {
    const value = message[field];
    if (value === undefined) continue;
    if (isList) {
      for (const item of (value as readonly unknown[]).toReversed()) writeField(writer, number, type, item);
    } else if (type === 'map') {
      writer.messages(number, Object.entries(value as Readonly<Record<string, string>>), (entry) => {
        writer.texts(2, [entry[1]]);
        writer.texts(1, [entry[0]]);
      });
    } else if (value !== zeroes[type]) writeField(writer, number, type, value);
  }
}

function writeField(writer: MessageWriter, number: number, type: string, value: unknown): void {
  if (type === 'string') writer.texts(number, [value as string]);
  else if (type === 'bytes') writer.raw(number, value as Uint8Array);
  else if (isNumber(type)) writer.integer(number, BigInt(value as number | bigint | boolean));
  else writer.message(number, () => write(writer, type, value as Readonly<Record<string, unknown>>));
}

/** Skips fields that the table does not have. @throws {RampartError} `DECODE` for what is no such message. */
export function decode<Name extends MessageName>(name: Name, bytes: Uint8Array): Message<Name> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const reader = new MessageReader(buffer, (why) => {
    const what = `response of the container runtime: no ${name}`;
    return new RampartError(errorCodes.DECODE, { what, why: `${why}, at byte ${reader.at}` });
  });
  return read(reader, name) as Message<Name>;
}

function read(reader: MessageReader, name: string): Record<string, unknown> {
  const { slots, scalars, containers } = layoutOf(name);
  const message: Record<string, unknown> = { ...scalars };
  for (const { name: field, isList } of containers) message[field] = isList ? [] : {};
  while (reader.at < reader.end) {
    reader.tag(name);
    const slot = slots.get(reader.fieldNumber);
    // Of another form than ours it is another field.
    if (
      slot === undefined ||
      reader.wireType !== (isNumber(slot.type) ? wireTypes.varint : wireTypes.bytes)
    ) {
      reader.skip();
    } else if (slot.type === 'map') readEntry(reader, message[slot.name] as Record<string, string>);
    else {
      const value = readValue(reader, slot.type);
      if (slot.isList) (message[slot.name] as unknown[]).push(value);
      else message[slot.name] = value;
    }
  }
  return message;
}

function isNumber(type: string): boolean {
  return type === 'bool' || type === 'int32' || type === 'uint32' || type === 'int64';
}

function readValue(reader: MessageReader, type: string): unknown {
  switch (type) {
    case 'bool':
      return reader.bool();
    case 'int32':
      return reader.int32();
    case 'uint32':
      return reader.int32() >>> 0;
    case 'int64':
      return BigInt(reader.int64());
    case 'string':
      return reader.bytes().toString();
    case 'bytes':
      // A copy: the answer it came in may be large.
      return new Uint8Array(reader.bytes());
    default:
      return reader.within(() => read(reader, type));
  }
}

function readEntry(reader: MessageReader, map: Record<string, string>): void {
  let [key, value] = ['', ''];
  reader.within(() => {
    while (reader.at < reader.end) {
      reader.tag('map');
      if (reader.wireType !== wireTypes.bytes || reader.fieldNumber > 2) reader.skip();
      else if (reader.fieldNumber === 1) key = reader.bytes().toString();
      else value = reader.bytes().toString();
    }
  });
  setField(map, key, value);
}
