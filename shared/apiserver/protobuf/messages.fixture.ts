// Objects of any kind that there is a message for, and their bytes: written as the code that gogo/protobuf generates for
// Go writes them, which sends every field that is no pointer, also where it is empty.
import type { GeneratorValue } from 'fast-check';
import fc from 'fast-check';

import { isObject, type JsonObject } from '../schema/json.ts';
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
  // Of a field that is no pointer, where nothing was set.
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
      return json === null ? Buffer.alloc(0) : bytes(1, JSON.stringify(json));
    default:
      return encodedChoice(name, json);
  }
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

type Gen = GeneratorValue;

const text = fc.string({ unit: 'binary', maxLength: 6 }).map((value) => value.toWellFormed());
const int32 = fc.oneof(fc.constantFrom(0, 1, -1, 2 ** 31 - 1, -(2 ** 31)), fc.integer());
const int64 = fc.oneof(
  int32,
  fc.maxSafeInteger(),
  fc.constantFrom(2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n, -(2n ** 53n)),
);
const date = fc.date({ min: new Date('0002-01-01'), max: new Date('9999-12-31'), noInvalidDate: true });
const json = fc.oneof(
  fc.constantFrom<unknown>(5, 'a', true, { 'f:a': {} }, [1, { b: null }]),
  fc.dictionary(fc.string(), fc.integer()),
);

const scalars: Readonly<Record<Scalar, fc.Arbitrary<unknown>>> = {
  string: text,
  bool: fc.boolean(),
  int32,
  int64,
  // JSON has no -0.
  double: fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
  bytes: fc.uint8Array({ maxLength: 6 }).map((value) => Buffer.from(value).toString('base64')),
};

/** An object as Go would write it in JSON: what is empty and left out there is not in it. */
export function anyObject(g: Gen, apiVersion: string, kind: string): JsonObject {
  const object = anyMessage(g, messageNamed(messageOfKind(apiVersion, kind) ?? ''), 6);
  return { kind, apiVersion, ...(object as JsonObject) };
}

function anyMessage(g: Gen, message: Message, depth: number): unknown {
  if (message.toJson !== undefined) return anyForm(g, message.name, depth);
  const object: JsonObject = {};
  // Few fields of many, or all objects would be endless.
  const isRich = g(() => fc.integer({ min: 0, max: 9 })) === 0;
  for (const field of message.fields) {
    const { name } = field;
    const isThere = depth > 0 && g(() => fc.integer({ min: 0, max: isRich ? 2 : 9 })) === 0;
    if (field.form !== 'one') {
      if (!isThere) continue;
      const keys = g(() => fc.uniqueArray(text, { minLength: 1, maxLength: 3 }));
      const all = keys.map((key) => [key, anyOne(g, field, depth - 1)] as const);
      object[name] = field.form === 'list' ? all.map(([, one]) => one) : Object.fromEntries(all);
    } else if (field.isInline) {
      Object.assign(object, anyMessage(g, messageNamed(field.messageName), isThere ? depth : 0));
    } else if (field.scalar !== undefined) {
      const zero = scalarZeroes[field.scalar];
      const value = isThere ? anyOne(g, field, depth) : field.isPointer ? undefined : zero;
      if (value !== undefined && (value !== zero || field.isPointer || field.isAlways)) object[name] = value;
    } else if (isThere || !field.isPointer) {
      const value = anyOne(g, field, isThere ? depth - 1 : 0);
      if (value !== null) object[name] = value;
    }
  }
  return object;
}

const scalarZeroes: Readonly<Record<Scalar, unknown>> = {
  string: '',
  bool: false,
  int32: 0,
  int64: 0,
  double: 0,
  bytes: '',
};

function anyOne(g: Gen, { scalar, messageName }: Field, depth: number): unknown {
  return scalar === undefined ? anyMessage(g, messageNamed(messageName), depth) : g(() => scalars[scalar]);
}

function anyForm(g: Gen, name: string, depth: number): unknown {
  const schema = (): unknown => anyMessage(g, messageNamed('apiextensions.JSONSchemaProps'), depth - 1);
  const isFirst = g(fc.boolean);
  switch (name) {
    case 'resource.Quantity':
      return g(() => fc.constantFrom('0', '100m', '64Mi'));
    case 'intstr.IntOrString':
      return isFirst ? g(() => text) : g(() => int32);
    case 'meta.Time':
      return depth <= 0
        ? null
        : `${g(() => date)
            .toISOString()
            .slice(0, 19)}Z`;
    case 'meta.MicroTime':
      return depth <= 0
        ? null
        : `${g(() => date)
            .toISOString()
            .slice(0, 23)}005Z`;
    case 'meta.FieldsV1':
    case 'runtime.RawExtension':
    case 'apiextensions.JSON':
      return g(() => json);
    case 'apiextensions.JSONSchemaPropsOrArray':
      return isFirst ? schema() : [schema()];
    case 'apiextensions.JSONSchemaPropsOrBool':
      return isFirst ? schema() : g(fc.boolean);
    case 'apiextensions.JSONSchemaPropsOrStringArray':
      return isFirst ? schema() : ['a', g(() => text)];
    case 'authentication.ExtraValue':
    case 'authorization.ExtraValue':
      return [g(() => text)];
    default:
      throw new Error(`the fixture cannot make ${name}`);
  }
}
