/** A map of which earlier versions can still be read. */

/** Values by key; undefined: the key is removed. */
export type MapEdits<K, V> = ReadonlyMap<K, V | undefined>;

/** After this many versions the map is copied: a version that is kept for long does not keep all later differences. */
const MAX_AGE = 64;

interface Difference<K, V extends object> {
  readonly edits: MapEdits<K, V>;
  readonly next: MapVersion<K, V>;
}

/**
 * One version of a map; it never changes. A new version costs as much as differs: the newest one holds the entries, each earlier one the
 * difference from the next. A copy of the map for each event, with a thousand pods, would be most of the event's garbage.
 *
 * Looking a key up takes one step for each later version, 64 at most; other ways to read an earlier version copy the map once.
 *
 * @example
 * const first = new MapVersion<string, Pod>();
 * const second = first.with(new Map([['x/a', pod]]));
 * first.size; // 0
 */
export class MapVersion<K, V extends object> implements ReadonlyMap<K, V> {
  #entries: Map<K, V> | undefined = new Map();
  /** The difference from the next version; undefined if this one has entries of its own. */
  #earlier: Difference<K, V> | undefined;
  /** How many earlier versions may lead to these entries. */
  #age = 0;

  with(edits: MapEdits<K, V>): MapVersion<K, V> {
    const entries = this.#own();
    const next = new MapVersion<K, V>();
    const isCopied = this.#age >= MAX_AGE;
    next.#entries = isCopied ? new Map(entries) : entries;
    next.#age = isCopied ? 0 : this.#age + 1;
    const before = new Map<K, V | undefined>();
    for (const [key, value] of edits) {
      before.set(key, entries.get(key));
      set(next.#entries, key, value);
    }
    if (isCopied) return next;
    this.#entries = undefined;
    this.#earlier = { edits: before, next };
    return next;
  }

  get size(): number {
    return this.#own().size;
  }

  get(key: K): V | undefined {
    let entries = this.#entries;
    for (let earlier = this.#earlier; earlier !== undefined; earlier = earlier.next.#earlier) {
      if (earlier.edits.has(key)) return earlier.edits.get(key);
      entries = earlier.next.#entries;
    }
    return entries?.get(key);
  }

  has(key: K): boolean {
    return this.get(key) !== undefined;
  }

  keys(): MapIterator<K> {
    return this.#own().keys();
  }

  values(): MapIterator<V> {
    return this.#own().values();
  }

  entries(): MapIterator<[K, V]> {
    return this.#own().entries();
  }

  [Symbol.iterator](): MapIterator<[K, V]> {
    return this.#own().entries();
  }

  forEach(callback: (value: V, key: K, map: ReadonlyMap<K, V>) => void): void {
    for (const [key, value] of this.#own()) callback(value, key, this);
  }

  #own(): Map<K, V> {
    if (this.#entries !== undefined) return this.#entries;
    // Without recursion: there may be many later versions.
    const differences: MapEdits<K, V>[] = [];
    let newest: ReadonlyMap<K, V> | undefined;
    for (let earlier = this.#earlier; earlier !== undefined; earlier = earlier.next.#earlier) {
      differences.push(earlier.edits);
      newest = earlier.next.#entries;
    }
    const entries = new Map(newest);
    for (const edits of differences.reverse()) for (const [key, value] of edits) set(entries, key, value);
    this.#earlier = undefined;
    this.#age = 0;
    return (this.#entries = entries);
  }
}

function set<K, V>(entries: Map<K, V>, key: K, value: V | undefined): void {
  if (value === undefined) entries.delete(key);
  else entries.set(key, value);
}
