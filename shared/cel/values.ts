/**
 * JSON as values of CEL: integers as int, byte strings decoded, dates as timestamps, objects that know the
 * fields of their schema and no others (apiserver `pkg/cel/common/values.go`).
 *
 * @module
 */
import { Optional } from '@marcbachmann/cel-js';
import { Duration } from '@marcbachmann/cel-js/evaluator';
import { parseDuration } from './formats.ts';
import { deepEqual, fieldOf, isObject, type JsonObject } from './json.ts';
import type { CelType } from './types.ts';

/** Makes the object of a type; every type of object is a class of its own, by which the evaluator knows it. */
export type ObjectClass = new (raw: JsonObject, type: CelType, classes: ObjectClasses) => CelObject;
export type ObjectClasses = ReadonlyMap<CelType, ObjectClass>;

/** An object in a rule. Its fields are converted when they are asked for. */
export class CelObject extends Map<string, unknown> {
  readonly raw: JsonObject;
  readonly #type: CelType;
  readonly #classes: ObjectClasses;

  constructor(raw: JsonObject, type: CelType, classes: ObjectClasses) {
    super();
    this.raw = raw;
    this.#type = type;
    this.#classes = classes;
  }

  override get(name: string): unknown {
    const known = super.get(name);
    if (known !== undefined) return known;
    const field = this.#type.fields?.get(name);
    if (field === undefined) return undefined;
    const raw = fieldOf(this.raw, field.name);
    // A null that the schema does not allow is as good as absent.
    if (raw === undefined || (raw === null && field.type.nullable !== true)) return undefined;
    const value = toCel(raw, field.type, this.#classes);
    super.set(name, value);
    return value;
  }
}

/** The value of CEL for a JSON value of a type. */
export function toCel(value: unknown, type: CelType, classes: ObjectClasses): unknown {
  if (value === null) return null;
  switch (type.kind) {
    case 'int':
    case 'dyn':
      return typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : value;
    case 'double':
      return typeof value === 'bigint' ? Number(value) : value;
    case 'bytes':
      return typeof value === 'string' ? new Uint8Array(Buffer.from(value, 'base64')) : value;
    case 'duration': {
      const nanoseconds = typeof value === 'string' ? parseDuration(value) : undefined;
      return nanoseconds === undefined ? value : durationOf(nanoseconds);
    }
    case 'timestamp':
      return typeof value === 'string' ? new Date(value) : value;
    case 'list': {
      const element = type.element;
      return Array.isArray(value) && element ? value.map((item) => toCel(item, element, classes)) : value;
    }
    case 'map': {
      const element = type.element;
      if (!isObject(value) || element === undefined) return value;
      return new Map(Object.keys(value).map((name) => [name, toCel(value[name], element, classes)]));
    }
    case 'object': {
      const Class = classes.get(type);
      return isObject(value) && Class !== undefined ? new Class(value, type, classes) : value;
    }
    case 'bool':
    case 'string':
      return value;
  }
}

/** A duration of whole nanoseconds. */
export function durationOf(nanoseconds: number): Duration {
  const seconds = Math.trunc(nanoseconds / 1e9);
  return new Duration(BigInt(seconds), nanoseconds - seconds * 1e9);
}

/** A value of one of the types that Kubernetes adds to CEL. */
export interface Comparable {
  equals(other: unknown): boolean;
}

/** Equality of CEL, for functions that compare elements. */
export function celEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (a instanceof CelObject) return b instanceof CelObject && deepEqual(a.raw, b.raw);
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => celEqual(item, b[index]));
  }
  if (a instanceof Map) {
    if (!(b instanceof Map) || a.size !== b.size) return false;
    return [...a].every(([key, value]) => b.has(key) && celEqual(value, b.get(key)));
  }
  if (a instanceof Optional) {
    return (
      b instanceof Optional &&
      a.hasValue() === b.hasValue() &&
      (!a.hasValue() || celEqual(a.value(), b.value()))
    );
  }
  if (a instanceof Date) return b instanceof Date && a.getTime() === b.getTime();
  if (a instanceof Duration) return b instanceof Duration && a.seconds === b.seconds && a.nanos === b.nanos;
  if (a instanceof Uint8Array) return b instanceof Uint8Array && Buffer.compare(a, b) === 0;
  if (typeof a === 'bigint' && typeof b === 'number') return Number(a) === b;
  if (typeof a === 'number' && typeof b === 'bigint') return a === Number(b);
  if (typeof a === 'object' && a !== null && 'equals' in a) return (a as Comparable).equals(b);
  return false;
}
