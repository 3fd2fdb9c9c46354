/**
 * Decodes a message of a known kind into the JSON that a Go client would have sent for the same object.
 *
 * There are two steps, because a nested message may come in several pieces, which have to be merged: first all bytes are
 * read, then the object is made. Both take time in proportion to the bytes, and both count objects against a limit, as
 * two bytes can create an object that contains others.
 *
 * Unknown field numbers are skipped, as in Kubernetes: strict validation does not see them.
 */
import { MessageReader, wireTypes } from '../../protobuf/reader.ts';
import { BodyMistake, bodyMistake } from '../body/body-mistake.ts';
import { maxNesting } from '../../json/bounds.ts';
import { type JsonObject, setField } from '../../json/json.ts';
import { type Field, type Message, messageNamed, type Scalar } from './fields.ts';

/** Limit for the objects read and created for one body. A ClusterRole of 3 MiB needs half of it. */
const maxObjects = 300_000;

type ScalarValue = string | number | bigint | boolean | Buffer;
/** The sent values of a message, indexed by {@link Field.index}. */
type Values = (Sent | undefined)[];
type One = ScalarValue | Values;
/** An array is a list or a message: the field tells which. */
type Sent = One | readonly One[] | Map<string, One>;

/** @throws {BodyMistake} */
export function decodeMessage(bytes: Buffer, name: string): JsonObject {
  const decoder = new Decoder(bytes);
  const message = messageNamed(name);
  const values: Values = [];
  decoder.read(message, values, 0);
  const object: JsonObject = {};
  decoder.write(message, values, object);
  return object;
}

class Decoder {
  readonly #wire: MessageReader;
  #objectsLeft = maxObjects;

  constructor(bytes: Buffer) {
    this.#wire = new MessageReader(bytes, bodyMistake);
  }

  /** Reads up to the end of the current message into `values`. */
  read(message: Message, values: Values, depth: number): void {
    const wire = this.#wire;
    if (depth > maxNesting) throw new BodyMistake(`nested deeper than ${maxNesting} levels`);
    this.#count();
    while (wire.at < wire.end) {
      wire.tag(message.name);
      const field = message.byNumber[wire.fieldNumber];
      if (field === undefined) wire.skip();
      else if (field.form === 'one') values[field.index] = this.#one(message, field, values, depth);
      else if (field.form === 'list') this.#addToList(message, field, values, depth);
      else this.#addToMap(message, field, values, depth);
    }
  }

  #one(message: Message, field: Field, values: Values, depth: number): One {
    this.#expect(field.scalar, message, field);
    if (field.scalar !== undefined) return this.#scalar(field.scalar, field.name);
    return this.#message(field, (values[field.index] as Values | undefined) ?? [], depth);
  }

  #message({ messageName }: Field, values: Values, depth: number): Values {
    this.#wire.within(() => this.read(messageNamed(messageName), values, depth + 1));
    return values;
  }

  #addToList(message: Message, field: Field, values: Values, depth: number): void {
    const wire = this.#wire;
    const list = (values[field.index] ??= []) as One[];
    const { scalar } = field;
    if (scalar === undefined) {
      this.#expect(scalar, message, field);
      list.push(this.#message(field, [], depth));
    } else if (wire.wireType === wireTypes.bytes && scalar !== 'string' && scalar !== 'bytes') {
      // Several numbers may be packed into one field.
      wire.within(() => {
        while (wire.at < wire.end) list.push(this.#scalar(scalar, field.name));
      });
    } else {
      this.#expect(scalar, message, field);
      list.push(this.#scalar(scalar, field.name));
    }
  }

  /** Reads a map entry: a message with the key as field 1 and the value as field 2. */
  #addToMap(message: Message, field: Field, values: Values, depth: number): void {
    const wire = this.#wire;
    this.#expect('string', message, field);
    if (values[field.index] === undefined) {
      this.#count();
      values[field.index] = new Map();
    }
    const map = values[field.index] as Map<string, One>;
    let key = '';
    let value: One | undefined;
    wire.within(() => {
      while (wire.at < wire.end) {
        wire.tag(message.name);
        if (wire.fieldNumber === 1) {
          this.#expect('string', message, field);
          key = wire.text(field.name);
        } else if (wire.fieldNumber === 2) {
          this.#expect(field.scalar, message, field);
          value =
            field.scalar === undefined
              ? this.#message(field, [], depth + 1)
              : this.#scalar(field.scalar, field.name);
        } else wire.skip();
      }
    });
    map.set(key, value ?? (field.scalar === undefined ? [] : zeroes[field.scalar]));
  }

  /** Checks that the tag has the wire type of `scalar`, or of a message if that is `undefined`. */
  #expect(scalar: Scalar | undefined, message: Message, field: Field): void {
    const { wireType } = this.#wire;
    const expected = scalar === undefined ? wireTypes.bytes : wireTypeOf[scalar];
    if (wireType !== expected) {
      throw new BodyMistake(`proto: ${message.name}: wrong wireType = ${wireType} for field ${field.name}`);
    }
  }

  #scalar(scalar: Scalar, field: string): ScalarValue {
    const wire = this.#wire;
    switch (scalar) {
      case 'string':
        return wire.text(field);
      case 'bytes':
        return wire.bytes();
      case 'bool':
        return wire.bool();
      case 'int32':
        return wire.int32();
      case 'int64':
        return wire.int64();
      case 'double': {
        const value = wire.double();
        if (!Number.isFinite(value)) throw new BodyMistake(`json: unsupported value: ${value}`);
        return value;
      }
    }
  }

  #count(): void {
    if (--this.#objectsLeft < 0) {
      throw new BodyMistake(`there are too many objects in it`);
    }
  }

  write(message: Message, values: Values, object: JsonObject): void {
    for (const field of message.fields) {
      const { index, name } = field;
      const sent = values[index];
      if (field.form === 'list') {
        const list = (sent ?? nothing) as One[];
        if (list.length > 0) object[name] = list.map((one) => this.#json(one, field));
      } else if (field.form === 'map') {
        if (sent !== undefined) object[name] = this.#map(sent as Map<string, One>, field);
      } else if (field.isInline) {
        this.write(messageNamed(field.messageName), (sent as Values | undefined) ?? nothing, object);
      } else if (field.scalar !== undefined) {
        const value =
          (sent as ScalarValue | undefined) ?? (field.isAlways ? zeroes[field.scalar] : undefined);
        if (value === undefined || (!field.isPointer && !field.isAlways && isZero(value))) continue;
        object[name] = jsonOf(value, message);
      } else if (sent !== undefined || !field.isPointer) {
        const value = this.#json((sent as Values | undefined) ?? nothing, field);
        // An unset time has the JSON null, and null fields are omitted.
        if (value !== null) object[name] = value;
      }
    }
  }

  #json(one: One, field: Field): unknown {
    if (field.scalar !== undefined) return jsonOf(one as ScalarValue, undefined);
    const message = messageNamed(field.messageName);
    this.#count();
    const object: JsonObject = {};
    this.write(message, one as Values, object);
    return message.toJson === undefined ? object : message.toJson(object);
  }

  #map(map: ReadonlyMap<string, One>, field: Field): JsonObject {
    const object: JsonObject = {};
    for (const [key, value] of map) setField(object, key, this.#json(value, field));
    return object;
  }
}

const nothing: Values = [];

const wireTypeOf: Readonly<Record<Scalar, number>> = {
  string: wireTypes.bytes,
  bytes: wireTypes.bytes,
  bool: wireTypes.varint,
  int32: wireTypes.varint,
  int64: wireTypes.varint,
  double: wireTypes.fixed64,
};

const zeroes: Readonly<Record<Scalar, ScalarValue>> = {
  string: '',
  bytes: Buffer.alloc(0),
  bool: false,
  int32: 0,
  int64: 0,
  double: 0,
};

function isZero(value: ScalarValue): boolean {
  return value === '' || value === 0 || value === false || (Buffer.isBuffer(value) && value.length === 0);
}

/** Encodes bytes as base64, except for a message that makes the JSON itself. */
function jsonOf(value: ScalarValue, message: Message | undefined): unknown {
  return Buffer.isBuffer(value) && message?.toJson === undefined ? value.toString('base64') : value;
}
