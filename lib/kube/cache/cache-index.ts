/** Indexes of a cache: each maps values of objects to the keys of the objects that have them. */

import { errorCodes, RampartError } from '../../errors/errors.ts';

/** The values under which an object can be found. A pure function of the object. */
export type IndexFunction<T> = (object: T) => Iterable<string>;

/** The values of one object, by index. */
export type IndexValues = readonly (readonly string[])[];

const none: readonly string[] = [];
const noValues: IndexValues = [];
/** Up to this many different lists of values are stored once and shared by the objects that have them; usually there are few. */
const SHARED_VALUES = 1024;

export class CacheIndexes<T> {
  readonly #indexes: {
    readonly name: string;
    readonly of: IndexFunction<T>;
    readonly index: CacheIndex;
  }[] = [];
  readonly #onFault: (error: unknown, key: string, index: string) => void;
  readonly #shared = new Map<string, IndexValues>();

  /** `onFault` is called when an index function throws; the object is not in that index then. */
  constructor(
    functions: Readonly<Record<string, IndexFunction<T>>>,
    onFault: (error: unknown, key: string, index: string) => void,
  ) {
    this.#onFault = onFault;
    this.add(functions);
  }

  /**
   * Adds indexes; existing ones with the same function stay. If it returns true, the caller has to call `update` for every object.
   *
   * @returns whether there is a new one.
   * @throws {RampartError} `INPUT` for the name of an index with another function.
   */
  add(functions: Readonly<Record<string, IndexFunction<T>>>): boolean {
    const fresh = Object.entries(functions).filter(([name, of]) => {
      const known = this.#indexes.find((index) => index.name === name);
      if (known === undefined) return true;
      if (known.of === of) return false;
      throw new RampartError(errorCodes.INPUT, {
        what: `index "${name}" exists with another function`,
        next: 'Use another name, or share the function',
      });
    });
    for (const [name, of] of fresh) this.#indexes.push({ name, of, index: new CacheIndex() });
    return fresh.length > 0;
  }

  /** @throws {RampartError} `INPUT` for an unknown index. */
  get(name: string): CacheIndex {
    const found = this.#indexes.find((index) => index.name === name);
    if (found !== undefined) return found.index;
    throw new RampartError(errorCodes.INPUT, {
      what: `there is no index "${name}"`,
      next: `Known indexes: ${this.#indexes.map((index) => index.name).join(', ')}`,
    });
  }

  /** Replaces an object's previous values, `before`, by its present ones. @returns the present ones */
  update(key: string, before: IndexValues, object: T): IndexValues {
    if (this.#indexes.length === 0) return noValues;
    const filed = this.#indexes.map(({ name, of, index }, at) => {
      let values: readonly string[] = none;
      try {
        values = [...new Set(of(object))];
      } catch (error) {
        this.#onFault(error, key, name);
      }
      index.update(key, before[at] ?? none, values);
      return values;
    });
    return this.#share(filed);
  }

  #share(values: IndexValues): IndexValues {
    const text = JSON.stringify(values);
    const known = this.#shared.get(text);
    if (known !== undefined) return known;
    if (this.#shared.size >= SHARED_VALUES) this.#shared.clear();
    this.#shared.set(text, values);
    return values;
  }

  /** Removes an object whose values are `before`. */
  remove(key: string, before: IndexValues): void {
    this.#indexes.forEach(({ index }, at) => index.update(key, before[at] ?? none, none));
  }
}

/** One index. A value may belong to one object or to many; most values belong to few. */
class CacheIndex {
  /** A single key is stored without a set: a Set of one takes 200 bytes. */
  readonly #keys = new Map<string, string | Set<string>>();

  /** Values that some object has. */
  values(): IterableIterator<string> {
    return this.#keys.keys();
  }

  /** The keys of the objects with a value, in no particular order. */
  keys(value: string): readonly string[] {
    const keys = this.#keys.get(value);
    if (keys === undefined) return none;
    return typeof keys === 'string' ? [keys] : [...keys];
  }

  /** Replaces the values of a key, `before`, by `now`. */
  update(key: string, before: readonly string[], now: readonly string[]): void {
    for (const value of before) if (!now.includes(value)) this.#remove(value, key);
    for (const value of now) if (!before.includes(value)) this.#add(value, key);
  }

  #add(value: string, key: string): void {
    const keys = this.#keys.get(value);
    if (keys === undefined) this.#keys.set(value, key);
    else if (typeof keys !== 'string') keys.add(key);
    else if (keys !== key) this.#keys.set(value, new Set([keys, key]));
  }

  #remove(value: string, key: string): void {
    const keys = this.#keys.get(value);
    if (keys === key) this.#keys.delete(value);
    if (keys === undefined || typeof keys === 'string') return;
    keys.delete(key);
    const [only] = keys;
    if (only === undefined) this.#keys.delete(value);
    else if (keys.size === 1) this.#keys.set(value, only);
  }
}
