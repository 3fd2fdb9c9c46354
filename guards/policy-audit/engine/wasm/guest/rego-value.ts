/**
 * Values of Rego as text, in the notation in which modules pass them: JSON, with sets (`{1, 2}`, `set()`) and keys of any type.
 *
 * In JavaScript, sets are `Set`, objects are plain unless a key is not a string (then `Map`), and integers are `bigint` if a `number`
 * would change them.
 */
import { goQuote } from '../../../../../lib/cel/go-text.ts';
import { setField, type JsonObject } from '../../../../../lib/json/json.ts';

const token = /\s*(?:("(?:[^"\\]|\\.)*")|(-?\d[\d.eE+-]*)|(true|false|null)|(set\(\))|([[\]{},:]))/sy;

/** @throws {SyntaxError} */
export function parseValue(text: string): unknown {
  // Most values are plain JSON, which is parsed five times as fast.
  if (!/\d{16}/.test(text)) {
    try {
      return JSON.parse(text);
    } catch {
      // The text is not JSON: it has sets, or keys of other types.
    }
  }
  const reader = new Reader(text);
  const value = reader.value();
  reader.end();
  return value;
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(): unknown {
    const [, string, number, word, set, sign] = this.#next();
    if (string !== undefined) return JSON.parse(string);
    if (number !== undefined) return numberOf(number);
    if (word !== undefined) return JSON.parse(word);
    if (set !== undefined) return new Set();
    if (sign === '[') return this.#items(']');
    if (sign === '{') return this.#braces();
    throw this.#unexpected();
  }

  end(): void {
    if (this.#text.slice(this.#at).trim() !== '') throw this.#unexpected();
  }

  /** Parses items up to a closing character; `first` has already been parsed. */
  #items(end: string, ...first: readonly unknown[]): unknown[] {
    const items = [...first];
    if (items.length === 0) {
      if (this.#skip(end)) return items;
      items.push(this.value());
    }
    while (this.#skip(',')) items.push(this.value());
    this.#expect(end);
    return items;
  }

  /** Parses an object or a set, which begin with the same character. */
  #braces(): unknown {
    if (this.#skip('}')) return {};
    const first = this.value();
    if (!this.#skip(':')) return new Set(this.#items('}', first));
    const entries: [unknown, unknown][] = [[first, this.value()]];
    while (this.#skip(',')) {
      const key = this.value();
      this.#expect(':');
      entries.push([key, this.value()]);
    }
    this.#expect('}');
    return objectOf(entries);
  }

  #next(): RegExpExecArray {
    token.lastIndex = this.#at;
    const found = token.exec(this.#text);
    if (found === null) throw this.#unexpected();
    this.#at = token.lastIndex;
    return found;
  }

  #skip(sign: string): boolean {
    const from = this.#at;
    if (this.#next()[5] === sign) return true;
    this.#at = from;
    return false;
  }

  #expect(sign: string): void {
    if (!this.#skip(sign)) throw this.#unexpected();
  }

  #unexpected(): SyntaxError {
    return new SyntaxError(`the policy passed a value that cannot be read at character ${this.#at}`);
  }
}

function numberOf(text: string): number | bigint {
  const value = Number(text);
  return Number.isSafeInteger(value) || !/^-?\d+$/.test(text) ? value : BigInt(text);
}

export function objectOf(entries: readonly (readonly [unknown, unknown])[]): unknown {
  if (!entries.every(([key]) => typeof key === 'string')) return new Map(entries);
  const object: JsonObject = {};
  for (const [key, value] of entries) setField(object, String(key), value);
  return object;
}

/** The entries of an object; `undefined` of anything else. */
export function entriesOf(value: unknown): [unknown, unknown][] | undefined {
  if (value instanceof Map) return [...value] as [unknown, unknown][];
  return kindOf(value) === 'object' ? Object.entries(value as JsonObject) : undefined;
}

/** The text that a module can parse. */
export function valueText(value: unknown): string {
  return written(value, JSON.stringify);
}

/** The text as Rego prints it: `["a", 1]`, `{"a": 1}`, `{1, 2}`. */
export function shownValue(value: unknown): string {
  return written(value, goQuote);
}

function written(value: unknown, quoted: (text: string) => string): string {
  const inner = (part: unknown): string => written(part, quoted);
  if (typeof value === 'string') return quoted(value);
  if (Array.isArray(value)) return `[${value.map(inner).join(', ')}]`;
  if (value instanceof Set) {
    const members = [...value].toSorted(compareValues).map(inner);
    return members.length === 0 ? 'set()' : `{${[...new Set(members)].join(', ')}}`;
  }
  const entries = entriesOf(value);
  if (entries === undefined) return value === undefined ? 'null' : String(value);
  const sorted = entries.toSorted(([a], [b]) => compareValues(a, b));
  return `{${sorted.map(([key, of]) => `${inner(key)}: ${inner(of)}`).join(', ')}}`;
}

/** The value as JSON: sets become arrays, and keys become strings. */
export function asJson(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asJson);
  if (value instanceof Set) return [...value].toSorted(compareValues).map(asJson);
  const entries = entriesOf(value);
  if (entries === undefined) return value;
  return objectOf(
    entries.map(([key, of]) => [typeof key === 'string' ? key : valueText(asJson(key)), asJson(of)]),
  );
}

type Kind = 'null' | 'boolean' | 'number' | 'string' | 'array' | 'object' | 'set';
const order: readonly Kind[] = ['null', 'boolean', 'number', 'string', 'array', 'object', 'set'];

function kindOf(value: unknown): Kind {
  if (value === null || value === undefined) return 'null';
  if (Array.isArray(value)) return 'array';
  if (value instanceof Set) return 'set';
  if (typeof value === 'bigint') return 'number';
  return typeof value as 'boolean' | 'number' | 'string' | 'object';
}

export const typeName = (value: unknown): string => kindOf(value);

/** Rego's order of all values: by type, then by value. */
export function compareValues(a: unknown, b: unknown): number {
  const kind = kindOf(a);
  if (kind !== kindOf(b)) return order.indexOf(kind) - order.indexOf(kindOf(b));
  switch (kind) {
    case 'null':
      return 0;
    case 'string':
      return Buffer.compare(Buffer.from(a as string), Buffer.from(b as string));
    case 'array':
      return compareLists(a as unknown[], b as unknown[]);
    case 'set':
      return compareLists(sorted(a as Set<unknown>), sorted(b as Set<unknown>));
    case 'object': {
      const [left, right] = [a, b].map((one) =>
        (entriesOf(one) ?? []).toSorted(([x], [y]) => compareValues(x, y)),
      ) as [[unknown, unknown][], [unknown, unknown][]];
      const keys = compareLists(
        left.map(([key]) => key),
        right.map(([key]) => key),
      );
      if (keys !== 0) return keys;
      return compareLists(
        left.map(([, value]) => value),
        right.map(([, value]) => value),
      );
    }
    case 'boolean':
    case 'number':
      return (a as number) < (b as number) ? -1 : (a as number) > (b as number) ? 1 : 0;
  }
}

const sorted = (set: Set<unknown>): unknown[] => [...set].toSorted(compareValues);

function compareLists(a: readonly unknown[], b: readonly unknown[]): number {
  for (let at = 0; at < Math.min(a.length, b.length); at++) {
    const difference = compareValues(a[at], b[at]);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}
