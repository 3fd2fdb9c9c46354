/**
 * The functions of CEL: each has a name and overloads, which differ in the types of their arguments.
 */
import { noOverload } from './failure.ts';
import { parseType, splitTypes, type Signature, type Type } from './static-types.ts';
import { CelObject, Duration, isPlain, Optional, Timestamp, TypeValue, Uint } from './values.ts';

interface Overload extends Signature {
  /** One check for each argument; the receiver of a method is the first argument. */
  readonly accepts: readonly ((value: unknown) => boolean)[];
  readonly call: (...values: readonly unknown[]) => unknown;
}

/** Collects functions. */
export class Library {
  readonly #functions = new Map<string, Overload[]>();
  readonly #classes = new Map<string, new (...values: never[]) => object>();

  /**
   * Adds a function `size(string): int`, a method `string.charAt(int): string` or, since no type has the name `sets`, a function
   * `sets.contains(list, list): bool`. The handler gets values of the types in the signature; for a method, the receiver first.
   */
  add(signature: string, handler: (...values: never[]) => unknown): this {
    const [, owner = '', name = '', args = '', result = ''] =
      /^(?:([^(]+)\.)?(\w+)\((.*)\): (.+)$/.exec(signature) ?? [];
    const receiver = parseType(owner, this.#classes);
    const params = splitTypes(args).map((text) => this.#type(text, signature));
    if (receiver !== undefined) params.unshift(receiver);
    const key = receiver !== undefined ? `.${name}` : owner === '' ? name : `${owner}.${name}`;
    const overload: Overload = {
      params,
      result: this.#type(result, signature),
      accepts: params.map((param) => this.#acceptor(param)),
      call: handler as Overload['call'],
    };
    this.#functions.set(key, [...(this.#functions.get(key) ?? []), overload]);
    return this;
  }

  /** A copy of this library, to which more can be added. */
  extended(): Library {
    const copy = new Library();
    for (const [key, overloads] of this.#functions) copy.#functions.set(key, [...overloads]);
    for (const [name, constructor] of this.#classes) copy.#classes.set(name, constructor);
    return copy;
  }

  /** Adds a type, whose values are compared by `equals`. */
  type(name: string, constructor: new (...values: never[]) => { equals(other: unknown): boolean }): this {
    this.#classes.set(name, constructor);
    return this;
  }

  /** The overloads of a function, or of a method as `.name`; `undefined` if it does not exist. */
  find(key: string): readonly Overload[] | undefined {
    return this.#functions.get(key);
  }

  /** The CEL value for the name of a type; `undefined` for an unknown name. */
  typeValue(name: string): TypeValue | undefined {
    const known = typeNames.has(name) || this.#classes.has(name);
    return known ? new TypeValue(name) : undefined;
  }

  /** The type of a value, as returned by `type()`. */
  typeOf(value: unknown): TypeValue {
    const own = runtimeType(value);
    if (own !== undefined) return new TypeValue(own);
    for (const [name, constructor] of this.#classes) {
      if (value instanceof constructor) return new TypeValue(name);
    }
    throw noOverload();
  }

  #type(text: string, signature: string): Type {
    const type = parseType(text, this.#classes);
    if (type === undefined) throw new TypeError(`no type '${text}' in '${signature}'`);
    return type;
  }

  #acceptor({ kind, name = '' }: Type): (value: unknown) => boolean {
    const constructor = this.#classes.get(name);
    if (kind === 'opaque' && constructor !== undefined) return (value) => value instanceof constructor;
    return acceptors[kind];
  }
}

const always = (): boolean => true;

const acceptors: Readonly<Record<Type['kind'], (value: unknown) => boolean>> = {
  bool: (value) => typeof value === 'boolean',
  int: (value) => typeof value === 'bigint',
  uint: (value) => value instanceof Uint,
  double: (value) => typeof value === 'number',
  string: (value) => typeof value === 'string',
  bytes: (value) => value instanceof Uint8Array,
  null: (value) => value === null,
  duration: (value) => value instanceof Duration,
  timestamp: (value) => value instanceof Timestamp,
  list: Array.isArray,
  map: (value) => value instanceof Map || isPlain(value),
  object: (value) => value instanceof CelObject,
  optional: (value) => value instanceof Optional,
  type: (value) => value instanceof TypeValue,
  dyn: always,
  param: always,
  opaque: always,
};

/** The kinds of the built-in types, keyed by name. */
const typeNames: ReadonlyMap<string, Type['kind']> = new Map([
  ['bool', 'bool'],
  ['int', 'int'],
  ['uint', 'uint'],
  ['double', 'double'],
  ['string', 'string'],
  ['bytes', 'bytes'],
  ['null_type', 'null'],
  ['google.protobuf.Duration', 'duration'],
  ['google.protobuf.Timestamp', 'timestamp'],
  ['list', 'list'],
  ['map', 'map'],
  ['type', 'type'],
  ['optional_type', 'optional'],
]);

function runtimeType(value: unknown): string | undefined {
  if (value instanceof CelObject) return 'object';
  for (const [name, kind] of typeNames) if (acceptors[kind](value)) return name;
  return undefined;
}

/** The name of a value's type for messages. */
export function typeNameOf(value: unknown): string {
  return runtimeType(value) ?? 'object';
}

/** Calls the first overload that accepts the values. */
export function dispatch(overloads: readonly Overload[], values: readonly unknown[]): unknown {
  for (const { accepts, call } of overloads) {
    let fits = true;
    for (let index = 0; fits && index < accepts.length; index++)
      fits = accepts[index]?.(values[index]) === true;
    if (fits) return call(...values);
  }
  throw noOverload();
}
