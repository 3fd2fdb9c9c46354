// Objects of any kind with a message, and their bytes: written as by the Go code that gogo/protobuf
// generates, which sends every field that is not a pointer, even if it is empty.
import { isObject, type JsonObject, setField } from '../../json/json.ts';
import { body, bytes, double, number } from './bytes.fixture.ts';
import { type Field, type Message, messageNamed, messageOfKind, type Scalar } from './fields.ts';

/** The body that a client in Go would send. The object is as Go would write it in JSON. */
export function encoded(object: JsonObject): Buffer {
  const { apiVersion, kind, ...rest } = object;
  const name = messageOfKind(String(apiVersion), String(kind));
  if (name === undefined) throw new Error(`there is no message for ${String(kind)}`);
  return body(String(apiVersion), String(kind), encodedMessage(messageNamed(name), rest));
}

function encodedMessage(message: Message, json: unknown): Buffer {
  const { name } = message;
  if (message.toJson !== undefined) return encodedForm(name, json);
  const object = json as JsonObject;
  return Buffer.concat(message.fields.flatMap((field) => encodedField(field, object)));
}

function encodedField(field: Field, object: JsonObject): Buffer[] {
  const value = field.isInline ? object : object[field.name];
  if (field.form === 'list') return ((value ?? []) as unknown[]).map((one) => encodedOne(field, one));
  if (field.form === 'map') {
    return Object.entries((value ?? {}) as JsonObject).map(([key, one]) =>
      bytes(field.number, bytes(1, key), encodedOne({ ...field, number: 2 }, one)),
    );
  }
  if (value === undefined && field.isPointer) return [];
  return [encodedOne(field, value)];
}

function encodedOne({ number: at, scalar, messageName }: Field, value: unknown): Buffer {
  switch (scalar) {
    case undefined:
      return bytes(at, encodedMessage(messageNamed(messageName), value ?? {}));
    case 'string':
      return bytes(at, String(value ?? ''));
    case 'bytes':
      return bytes(at, Buffer.from(String(value ?? ''), 'base64'));
    case 'double':
      return double(at, Number(value ?? 0));
    case 'bool':
      return number(at, value === true ? 1 : 0);
    case 'int32':
    case 'int64':
      return number(at, (value ?? 0) as number | bigint);
  }
}

function encodedForm(name: string, json: unknown): Buffer {
  // A field that is not a pointer, and was not set.
  const isNone = isObject(json) && Object.keys(json).length === 0;
  switch (name) {
    case 'resource.Quantity':
      return bytes(1, isNone ? '0' : String(json));
    case 'intstr.IntOrString':
      return typeof json === 'string'
        ? Buffer.concat([number(1, 1), number(2, 0), bytes(3, json)])
        : Buffer.concat([number(1, 0), number(2, isNone ? 0 : Number(json)), bytes(3)]);
    case 'meta.Time':
    case 'meta.MicroTime': {
      if (isNone) return Buffer.alloc(0);
      const text = String(json);
      const nanos = name === 'meta.Time' ? 0 : Number(text.slice(20, 26)) * 1000;
      return Buffer.concat([number(1, Math.floor(Date.parse(text) / 1000)), number(2, nanos)]);
    }
    case 'meta.FieldsV1':
    case 'runtime.RawExtension':
    case 'apiextensions.JSON':
      return bytes(1, jsonText(json));
    default:
      return encodedChoice(name, json);
  }
}

function jsonText(json: unknown): string {
  return typeof json === 'bigint' ? String(json) : JSON.stringify(json);
}

function encodedChoice(name: string, json: unknown): Buffer {
  const schema = messageNamed('apiextensions.JSONSchemaProps');
  switch (name) {
    case 'apiextensions.JSONSchemaPropsOrArray':
      return Array.isArray(json)
        ? Buffer.concat(json.map((one) => bytes(2, encodedMessage(schema, one))))
        : bytes(1, encodedMessage(schema, json));
    case 'apiextensions.JSONSchemaPropsOrBool':
      return typeof json === 'boolean'
        ? number(1, json ? 1 : 0)
        : Buffer.concat([number(1, 1), bytes(2, encodedMessage(schema, json))]);
    case 'apiextensions.JSONSchemaPropsOrStringArray':
      return Array.isArray(json)
        ? Buffer.concat(json.map((one) => bytes(2, String(one))))
        : bytes(1, encodedMessage(schema, json));
    case 'authentication.ExtraValue':
    case 'authorization.ExtraValue':
      return Buffer.concat((json as string[]).map((one) => bytes(1, one)));
    default:
      throw new Error(`the fixture cannot write ${name}`);
  }
}

/** Chance from a seed; and how much may still be made, as schemas have schemas in them without an end. */
class Chance {
  left = 60;
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** From 0 to `below` - 1 (mulberry32). */
  below(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  }

  of<T>(values: readonly T[]): T {
    return values[this.below(values.length)] as T;
  }
}

const texts = ['', 'a', 'zwei', 'x-y/z', '\0', 'é\ufffd', '😀', '__proto__', ' '];
const int32s = [0, 1, -1, 443, 2 ** 31 - 1, -(2 ** 31)];
const values: Readonly<Record<Scalar, readonly unknown[]>> = {
  string: texts,
  bool: [false, true],
  int32: int32s,
  int64: [...int32s, 2 ** 53 - 1, 2n ** 53n, -(2n ** 53n), 2n ** 63n - 1n, -(2n ** 63n)],
  double: [0, 1, 0.1, -2.5e300, 5e-324],
  bytes: ['', 'AA==', '/wD+', 'aGFsbG8='],
};
const times = ['0002-01-01T00:00:00', '1969-12-31T23:59:59', '1970-01-01T00:00:00', '9999-12-31T23:59:59'];
const jsons = [5, 'a', true, { 'f:a': {} }, [1, { b: null }], 2n ** 63n - 1n, {}, -0.5];

/** An object as Go would write it in JSON: what is empty and left out there is not in it. */
export function anyObject(seed: number, apiVersion: string, kind: string): JsonObject {
  const message = messageNamed(messageOfKind(apiVersion, kind) ?? '');
  return { kind, apiVersion, ...(anyMessage(new Chance(seed), message, true) as JsonObject) };
}

function anyMessage(chance: Chance, message: Message, isSent: boolean): unknown {
  if (message.toJson !== undefined) return anyForm(chance, message.name, isSent);
  const object: JsonObject = {};
  chance.left--;
  const rarity = chance.of([1, 2, 4, 8]);
  for (const field of message.fields) {
    const { name, scalar, isPointer } = field;
    const exists = isSent && chance.left > 0 && chance.below(rarity) === 0;
    if (field.form === 'list') {
      if (exists) object[name] = [anyOne(chance, field, true), anyOne(chance, field, true)];
    } else if (field.form === 'map') {
      if (!exists) continue;
      const keys = new Set([chance.of(texts), chance.of(texts)]);
      const map: JsonObject = {};
      for (const key of keys) setField(map, key, anyOne(chance, field, true));
      object[name] = map;
    } else if (field.isInline) {
      Object.assign(object, anyMessage(chance, messageNamed(field.messageName), exists));
    } else if (scalar !== undefined) {
      const value = exists ? anyOne(chance, field, true) : isPointer ? undefined : values[scalar][0];
      const isKept = isPointer || field.isAlways || value !== values[scalar][0];
      if (value !== undefined && isKept) object[name] = value;
    } else if (exists || !isPointer) {
      const value = anyOne(chance, field, exists);
      if (value !== null) object[name] = value;
    }
  }
  return object;
}

function anyOne(chance: Chance, { scalar, messageName }: Field, isSent: boolean): unknown {
  return scalar === undefined
    ? anyMessage(chance, messageNamed(messageName), isSent)
    : chance.of(values[scalar]);
}

/** If not sent: in its unset form. */
function anyForm(chance: Chance, name: string, isSent: boolean): unknown {
  const schema = (): unknown => anyMessage(chance, messageNamed('apiextensions.JSONSchemaProps'), true);
  const isFirst = chance.below(2) === 0;
  switch (name) {
    case 'resource.Quantity':
      return isSent ? chance.of(['0', '100m', '64Mi']) : '0';
    case 'intstr.IntOrString':
      return isSent ? chance.of([...texts, ...int32s]) : 0;
    case 'meta.Time':
      return isSent ? `${chance.of(times)}Z` : null;
    case 'meta.MicroTime':
      return isSent ? `${chance.of(times)}${chance.of(['.000000', '.000005', '.999999'])}Z` : null;
    case 'meta.FieldsV1':
    case 'runtime.RawExtension':
    case 'apiextensions.JSON':
      return chance.of(jsons);
    case 'apiextensions.JSONSchemaPropsOrArray':
      return isFirst ? schema() : [schema()];
    case 'apiextensions.JSONSchemaPropsOrBool':
      return isFirst ? schema() : chance.of([false, true]);
    case 'apiextensions.JSONSchemaPropsOrStringArray':
      return isFirst ? schema() : ['a', chance.of(texts)];
    case 'authentication.ExtraValue':
    case 'authorization.ExtraValue':
      return [chance.of(texts)];
    default:
      throw new Error(`the fixture cannot make ${name}`);
  }
}
