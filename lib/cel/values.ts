/**
 * JSON as CEL values: integers as int, byte strings decoded, dates as timestamps, objects that know the
 * fields of their schema and no others (apiserver `pkg/cel/common/values.go`).
 */
import { parseDuration } from './formats.ts';
import { fieldOf, isObject, type JsonObject } from '../json/json.ts';
import { charge, currentRun } from './meter.ts';
import type { CelType } from './types.ts';

/** An object in a rule. Its fields are converted on access. */
export class CelObject {
  readonly raw: JsonObject;
  readonly #type: CelType;
  #converted: Map<string, unknown> | undefined;

  constructor(raw: JsonObject, type: CelType) {
    this.raw = raw;
    this.#type = type;
  }

  get(name: string): unknown {
    const known = this.#converted?.get(name);
    if (known !== undefined) return known;
    const field = this.#type.fields?.get(name);
    if (field === undefined) return undefined;
    const raw = fieldOf(this.raw, field.name);
    // A field that is null is as good as absent, also where the schema allows it.
    if (raw === undefined || raw === null) return undefined;
    const value = toCel(raw, field.type);
    if (typeof value === 'object' && value !== null) (this.#converted ??= new Map()).set(name, value);
    return value;
  }
}

/** An unsigned integer; a plain `bigint` is `int`. */
export class Uint {
  readonly value: bigint;

  constructor(value: bigint) {
    this.value = value;
  }
}

export class Duration {
  readonly nanoseconds: bigint;

  constructor(nanoseconds: bigint) {
    this.nanoseconds = nanoseconds;
  }
}

/** A value that may be absent. */
export class Optional {
  readonly value: unknown;

  private constructor(value: unknown) {
    this.value = value;
  }

  static readonly none = new Optional(undefined);

  /** `undefined` means no value. */
  static of(value: unknown): Optional {
    return value === undefined ? Optional.none : new Optional(value);
  }
}

/** A type as a value: `type(self) == int`. */
export class TypeValue {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/** A map is a `Map`, or a JSON object. */
export function isPlain(value: unknown): value is JsonObject {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** The key of a `Map` for a value: 1, 1u and 1.0 are the same key. */
export function mapKey(value: unknown): unknown {
  if (value instanceof Uint) return value.value;
  return typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : value;
}

/**
 * The CEL value of a JSON field or entry without a schema: whole numbers are int, as they are in Go once a
 * number has gone through the API server. Objects stay as they are, their contents are converted on access; lists
 * that contain numbers are converted, because lists created by expressions may contain doubles.
 */
export function fromJson(value: unknown): unknown {
  if (typeof value === 'number') return isInt64(value) ? BigInt(value) : value;
  return Array.isArray(value) ? listFromJson(value) : value;
}

const isInt64 = (value: number): boolean => Number.isInteger(value) && Math.abs(value) < 2 ** 63;

/** Checking an item takes about a fiftieth of a step, converting it to a number a third. */
const [perItem, perNumber] = [0.02, 0.3];
/** Lists from this length on are converted once in a run: expressions may access one in a loop. */
const longList = 32;

const converted = { run: 0, lists: new Map<readonly unknown[], readonly unknown[]>() };

function listFromJson(list: readonly unknown[]): readonly unknown[] {
  if (list.length < longList) return convertList(list);
  if (converted.run !== currentRun()) {
    converted.run = currentRun();
    converted.lists = new Map();
  }
  const known = converted.lists.get(list);
  if (known !== undefined) return known;
  const made = convertList(list);
  converted.lists.set(list, made);
  return made;
}

function convertList(list: readonly unknown[]): readonly unknown[] {
  charge(list.length * perItem);
  if (!list.some((item) => typeof item === 'number' || Array.isArray(item))) return list;
  charge(list.length * perNumber);
  return list.map(fromJson);
}

/** The CEL value of a JSON value of a type. */
export function toCel(value: unknown, type: CelType): unknown {
  if (value === null) return null;
  switch (type.kind) {
    case 'dyn':
      return fromJson(value);
    case 'int':
      return typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : value;
    case 'double':
      return typeof value === 'bigint' ? Number(value) : value;
    case 'bytes':
      return typeof value === 'string' ? new Uint8Array(Buffer.from(value, 'base64')) : value;
    case 'duration': {
      const nanoseconds = typeof value === 'string' ? parseDuration(value) : undefined;
      return nanoseconds === undefined ? value : new Duration(BigInt(nanoseconds));
    }
    case 'timestamp':
      return typeof value === 'string' ? new Date(value) : value;
    case 'list': {
      const element = type.element;
      return Array.isArray(value) && element ? value.map((item) => toCel(item, element)) : value;
    }
    case 'map': {
      const element = type.element;
      if (!isObject(value) || element === undefined) return value;
      return new Map(Object.keys(value).map((name) => [name, toCel(value[name], element)]));
    }
    case 'object':
      return isObject(value) ? new CelObject(value, type) : value;
    case 'bool':
    case 'string':
      return value;
  }
}
