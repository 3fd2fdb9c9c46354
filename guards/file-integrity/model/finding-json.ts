/** Reads findings from JSON, field by field: data from another process may not have the expected types. */
import type { RampartError } from '../../../lib/errors/errors.ts';
import type { ChangeAuthor, Finding } from './finding.ts';

const MAX_TIME_MS = Date.UTC(9999, 11, 31, 23, 59, 59);

/** Reads the fields of a JSON object. Each method requires a type; a field without a default must be present. */
export class Fields {
  readonly #value: Readonly<Record<string, unknown>>;
  readonly #place: string;
  readonly #refuse: (why: string) => RampartError;

  /** @throws the error that `refuse` returns, here and in all methods, for a value of another type */
  constructor(value: unknown, place: string, refuse: (why: string) => RampartError) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw refuse(`${place === '' ? 'it' : place} is not an object`);
    }
    this.#value = value as Readonly<Record<string, unknown>>;
    this.#place = place;
    this.#refuse = refuse;
  }

  static parse(json: string, place: string, refuse: (why: string) => RampartError): Fields {
    return new Fields(parsed(json, place, refuse), place, refuse);
  }

  /** Like {@link parse}, for a list of objects. */
  static parseList(json: string, place: string, refuse: (why: string) => RampartError): Fields[] {
    return new Fields({ [place]: parsed(json, place, refuse) }, '', refuse).objects(place);
  }

  text(name: string, otherwise?: string): string {
    const value = this.#get(name, otherwise);
    return typeof value === 'string' ? value : this.#wrong(name, 'not a string');
  }

  /** A whole number of at least 0 that JavaScript represents exactly. */
  count(name: string, otherwise?: number): number {
    const value = this.#get(name, otherwise);
    return Number.isSafeInteger(value) && (value as number) >= 0
      ? (value as number)
      : this.#wrong(name, 'not an integer');
  }

  /** Milliseconds since 1970, up to the year 9999: the API has no later times. */
  time(name: string): number {
    const ms = this.count(name);
    return ms <= MAX_TIME_MS ? ms : this.#wrong(name, 'not a time');
  }

  flag(name: string): boolean {
    const value = this.#get(name, false);
    return typeof value === 'boolean' ? value : this.#wrong(name, 'neither true nor false');
  }

  oneOf<Value extends string>(name: string, values: readonly Value[], otherwise?: NoInfer<Value>): Value {
    const value = this.#get(name, otherwise);
    return values.find((one) => one === value) ?? this.#wrong(name, `not one of ${values.join(', ')}`);
  }

  texts(name: string, otherwise?: readonly string[]): string[] {
    const value = this.#get(name, otherwise);
    return Array.isArray(value) && value.every((one) => typeof one === 'string')
      ? value
      : this.#wrong(name, 'not a list of strings');
  }

  objects(name: string): Fields[] {
    const value = this.#get(name, []);
    if (!Array.isArray(value)) return this.#wrong(name, 'not a list');
    return value.map((one, at) => new Fields(one, `${this.#at(name)}[${at}]`, this.#refuse));
  }

  object(name: string, otherwise?: object): Fields {
    return new Fields(this.#get(name, otherwise), this.#at(name), this.#refuse);
  }

  optional(name: string): Fields | undefined {
    return this.has(name) ? this.object(name) : undefined;
  }

  has(name: string): boolean {
    return Object.hasOwn(this.#value, name);
  }

  #get(name: string, otherwise: unknown): unknown {
    return this.has(name) ? this.#value[name] : otherwise;
  }

  #wrong(name: string, how: string): never {
    throw this.#refuse(`${this.#at(name)} is ${this.has(name) ? how : 'missing'}`);
  }

  #at(name: string): string {
    return this.#place === '' ? name : `${this.#place}.${name}`;
  }
}

function parsed(json: string, place: string, refuse: (why: string) => RampartError): unknown {
  try {
    return JSON.parse(json);
  } catch {
    throw refuse(`${place} is not JSON`);
  }
}

export function decodeFinding(fields: Fields): Finding {
  const last = fields.optional('last');
  return {
    path: fields.text('path'),
    change: fields.oneOf('change', ['added', 'removed', 'changed']),
    attributes: fields.texts('attributes'),
    seenMs: fields.time('seenMs'),
    seenBy: fields.oneOf('seenBy', ['event', 'scan']),
    ...decodeAuthorOf(fields),
    // Added later than the other fields: older findings lack it.
    ...(last && {
      last: {
        seenMs: last.time('seenMs'),
        seenBy: last.oneOf('seenBy', ['event', 'scan']),
        ...decodeAuthorOf(last),
      },
    }),
    ...(fields.has('explained') && { explained: fields.text('explained') }),
  };
}

function decodeAuthorOf(fields: Fields): Pick<Finding, 'author'> {
  return fields.has('author') ? { author: decodeAuthor(fields.object('author')) } : {};
}

function decodeAuthor(fields: Fields): ChangeAuthor {
  const [container, pod] = [fields.optional('container'), fields.optional('pod')];
  return {
    binary: fields.text('binary'),
    arguments: fields.text('arguments'),
    cwd: fields.text('cwd'),
    uid: fields.count('uid'),
    gid: fields.count('gid'),
    pid: fields.count('pid'),
    ppid: fields.count('ppid'),
    parentBinary: fields.text('parentBinary'),
    relation: fields.oneOf('relation', ['host', 'container', 'unknown']),
    ...(container && { container: { id: container.text('id'), name: container.text('name') } }),
    ...(pod && { pod: { namespace: pod.text('namespace'), name: pod.text('name') } }),
    ...(fields.has('unit') && { unit: fields.text('unit') }),
    ...(fields.has('mounts') && { mounts: fields.oneOf('mounts', ['own']) }),
  };
}
