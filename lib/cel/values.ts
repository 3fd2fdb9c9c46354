/**
 * JSON as CEL values: integers as int, byte strings decoded, dates as timestamps, objects with only the fields of their
 * schema (apiserver `pkg/cel/common/values.go`).
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
    // A null field counts as absent, even if the schema allows null.
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

/** A point in time. */
export class Timestamp {
  /** Nanoseconds since 1970 in UTC. */
  readonly nanoseconds: bigint;
  /** Offset from UTC, for printing: minutes to the east, as in the text from which it was parsed. */
  readonly offset: number;

  constructor(nanoseconds: bigint, offset = 0) {
    this.nanoseconds = nanoseconds;
    this.offset = offset;
  }

  /** The time in UTC, to the millisecond. */
  get utc(): Date {
    return new Date(Number((this.nanoseconds - modulo(this.nanoseconds, 1_000_000n)) / 1_000_000n));
  }

  /** RFC 3339 with as many fractional digits as needed. */
  toString(): string {
    const local = new Date(this.utc.getTime() + this.offset * 60_000).toISOString().slice(0, 19);
    const rest = String(modulo(this.nanoseconds, 1_000_000_000n)).padStart(9, '0').replace(/0+$/, '');
    const [hours, minutes] = [Math.floor(Math.abs(this.offset) / 60), Math.abs(this.offset) % 60].map(
      (part) => String(part).padStart(2, '0'),
    );
    const zone = this.offset === 0 ? 'Z' : `${this.offset < 0 ? '-' : '+'}${hours}:${minutes}`;
    return `${local}${rest === '' ? '' : `.${rest}`}${zone}`;
  }
}

/** Remainder that is never negative. */
function modulo(value: bigint, by: bigint): bigint {
  const rest = value % by;
  return rest < 0n ? rest + by : rest;
}

/** Parses RFC 3339 or a date alone, both of which occur in JSON; `undefined` for any other text. */
export function timestampOf(text: string): Timestamp | undefined {
  const [, date, time, fraction = '', zone] =
    /^(\d{4}-\d\d-\d\d)(?:[Tt](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d))?$/.exec(text) ?? [];
  if (date === undefined) return undefined;
  const ms = Date.parse(time === undefined ? date : `${date}T${time}${zone?.toUpperCase()}`);
  if (Number.isNaN(ms)) return undefined;
  const [, sign, hours, minutes] = /^([+-])(\d\d):(\d\d)$/.exec(zone ?? '') ?? [];
  const offset = (Number(hours ?? 0) * 60 + Number(minutes ?? 0)) * (sign === '-' ? -1 : 1);
  return new Timestamp(BigInt(ms) * 1_000_000n + BigInt(fraction.slice(0, 9).padEnd(9, '0')), offset);
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

  /** @param value - `undefined` makes an empty optional. */
  static of(value: unknown): Optional {
    return value === undefined ? Optional.none : new Optional(value);
  }
}

/** An object that an expression created, of a type that its scope declares. */
export class CelMessage {
  /** The name of its type. */
  readonly type: string;
  readonly fields: ReadonlyMap<string, unknown>;

  constructor(type: string, fields: ReadonlyMap<string, unknown>) {
    this.type = type;
    this.fields = fields;
  }
}

export class TypeValue {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/** Whether the value is a JSON object. A CEL map is either that or a `Map`. */
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
 * The CEL value of a JSON field or entry without a schema: whole numbers are int, since that is how Go decodes them in the
 * API server. Objects are not converted; their contents are, on access. Lists with numbers are converted, because a list
 * created by an expression may contain whole doubles.
 */
export function fromJson(value: unknown): unknown {
  if (typeof value === 'number') return isInt64(value) ? BigInt(value) : value;
  return Array.isArray(value) ? listFromJson(value) : value;
}

const isInt64 = (value: number): boolean => Number.isInteger(value) && Math.abs(value) < 2 ** 63;

/** Checking an item takes about a fiftieth of a step, converting it to a number a third. */
const [perItem, perNumber] = [0.02, 0.3];
/** From this length on, a list is converted only once per evaluation: an expression may access it in a loop. */
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

/** The CEL value of a JSON value with a known type. */
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
      return typeof value === 'string' ? (timestampOf(value) ?? value) : value;
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
