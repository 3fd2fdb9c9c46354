/**
 * Messages as bytes, by a table of their fields: https://protobuf.dev/programming-guides/encoding/
 *
 * Own code instead of @bufbuild/protobuf, which the tests run against it: see docs/decisions.
 *
 * A field is `[number, type]`, a repeated one `[number, type, 'list']`; `map` is from string to string. Enumerations are
 * written as `int32`, which is the same on the wire. Names are those of JavaScript: on the wire there are only numbers.
 */
import { errorCodes, RampartError } from '../errors/errors.ts';
import { setField } from '../json/json.ts';
import { MessageReader, wireTypes } from './reader.ts';
import { MessageWriter } from './writer.ts';

interface Scalars {
  readonly string: string;
  readonly bool: boolean;
  readonly int32: number;
  readonly uint32: number;
  readonly int64: bigint;
  readonly bytes: Uint8Array;
  readonly map: Readonly<Record<string, string>>;
}

/** A field's number and type, as above. */
export type Field = readonly [number, string] | readonly [number, string, 'list'];

/** Messages by their names. */
export type MessageTable = Readonly<Record<string, Readonly<Record<string, Field>>>>;

type Value<Table, Type> = Type extends keyof Scalars
  ? Scalars[Type]
  : Type extends keyof Table
    ? Message<Table, Type> | undefined
    : never;
type Item<Table, Type> = Exclude<Value<Table, Type>, undefined>;
type FieldValue<Table, F> = F extends readonly [number, infer Type, 'list']
  ? readonly Item<Table, Type>[]
  : F extends readonly [number, infer Type]
    ? Value<Table, Type>
    : never;

/** A message as decoded: fields that were not sent are empty, 0, or, for messages, undefined. */
export type Message<Table, Name extends keyof Table> = {
  readonly [F in keyof Table[Name]]: FieldValue<Table, Table[Name][F]>;
};

type InitValue<Table, F> = F extends readonly [number, infer Type, 'list']
  ? readonly (Type extends keyof Table ? MessageInit<Table, Type> : Item<Table, Type>)[]
  : F extends readonly [number, infer Type]
    ? Type extends keyof Table
      ? MessageInit<Table, Type>
      : Value<Table, Type>
    : never;

/** A message to encode: every field may be omitted. */
export type MessageInit<Table, Name extends keyof Table> = {
  readonly [F in keyof Table[Name]]?: InitValue<Table, Table[Name][F]>;
};

/** A field, for lookup by its number. */
interface Slot {
  readonly name: string;
  readonly type: string;
  readonly isList: boolean;
}

interface Layout {
  readonly slots: ReadonlyMap<number, Slot>;
  /** Initial values of an object before anything is read. */
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

/** Encodes and decodes the messages of a table. Messages may be added to the table later. */
export class MessageCodec<Table> {
  readonly #messages: MessageTable;
  readonly #source: string;
  readonly #layouts = new Map<string, Layout>();

  /** @param source - Where messages come from, for errors: `response of the container runtime`. */
  constructor(messages: Table, source: string) {
    // An interface, which tests extend, has no index signature.
    this.#messages = messages as MessageTable;
    this.#source = source;
  }

  encode<Name extends keyof Table & string>(name: Name, message: MessageInit<Table, Name>): Buffer {
    const writer = new MessageWriter(256);
    this.#write(writer, name, message);
    return writer.bytes();
  }

  /** Skips fields that the table does not have. @throws {RampartError} `DECODE` if the bytes are not such a message. */
  decode<Name extends keyof Table & string>(name: Name, bytes: Uint8Array): Message<Table, Name> {
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const reader = new MessageReader(buffer, (why) => {
      const what = `${this.#source}: no ${name}`;
      return new RampartError(errorCodes.DECODE, { what, why: `${why}, at byte ${reader.at}` });
    });
    return this.#read(reader, name) as Message<Table, Name>;
  }

  /** Writes from the last field to the first, because the writer works backwards. */
  #write(writer: MessageWriter, name: string, message: Readonly<Record<string, unknown>>): void {
    for (const [number, { name: field, type, isList }] of [...this.#layout(name).slots].toReversed()) {
      const value = message[field];
      if (value === undefined) continue;
      if (isList) {
        for (const item of (value as readonly unknown[]).toReversed())
          this.#writeField(writer, number, type, item);
      } else if (type === 'map') {
        writer.messages(number, Object.entries(value as Readonly<Record<string, string>>), (entry) => {
          writer.texts(2, [entry[1]]);
          writer.texts(1, [entry[0]]);
        });
      } else if (value !== zeroes[type]) this.#writeField(writer, number, type, value);
    }
  }

  #writeField(writer: MessageWriter, number: number, type: string, value: unknown): void {
    if (type === 'string') writer.texts(number, [value as string]);
    else if (type === 'bytes') writer.raw(number, value as Uint8Array);
    else if (isNumber(type)) writer.integer(number, BigInt(value as number | bigint | boolean));
    else writer.message(number, () => this.#write(writer, type, value as Readonly<Record<string, unknown>>));
  }

  #read(reader: MessageReader, name: string): Record<string, unknown> {
    const { slots, scalars, containers } = this.#layout(name);
    const message: Record<string, unknown> = { ...scalars };
    for (const { name: field, isList } of containers) message[field] = isList ? [] : {};
    while (reader.at < reader.end) {
      reader.tag(name);
      const slot = slots.get(reader.fieldNumber);
      // With another wire type than ours, it is another field.
      if (
        slot === undefined ||
        reader.wireType !== (isNumber(slot.type) ? wireTypes.varint : wireTypes.bytes)
      ) {
        reader.skip();
      } else if (slot.type === 'map') readEntry(reader, message[slot.name] as Record<string, string>);
      else {
        const value = this.#readValue(reader, slot.type);
        if (slot.isList) (message[slot.name] as unknown[]).push(value);
        else message[slot.name] = value;
      }
    }
    return message;
  }

  #readValue(reader: MessageReader, type: string): unknown {
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
        // A copy: a view would keep the whole answer in memory.
        return new Uint8Array(reader.bytes());
      default:
        return reader.within(() => this.#read(reader, type));
    }
  }

  #layout(name: string): Layout {
    let layout = this.#layouts.get(name);
    if (layout === undefined) {
      const fields = Object.entries(this.#messages[name] ?? {});
      const slots = new Map<number, Slot>(
        fields.map(([field, [number, type, list]]) => [
          number,
          { name: field, type, isList: list === 'list' },
        ]),
      );
      layout = {
        slots,
        scalars: Object.fromEntries(fields.map(([field, [, type]]) => [field, zeroes[type]])),
        containers: [...slots.values()].filter(({ type, isList }) => isList || type === 'map'),
      };
      this.#layouts.set(name, layout);
    }
    return layout;
  }
}

function isNumber(type: string): boolean {
  return type === 'bool' || type === 'int32' || type === 'uint32' || type === 'int64';
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
