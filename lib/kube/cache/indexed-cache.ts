/** The objects of one resource, as in the API: a reflector updates them, and all parts of the process read them. */
import type { Logger } from '../../telemetry/log.ts';
import { loopSlice } from '../../time/loop-slice.ts';
import { CacheIndexes, type IndexFunction, type IndexValues } from './cache-index.ts';
import { apiVersionOf, type KubeObject, objectKey, type ResourceType } from '../object/object.ts';
import { ParsedObjects } from './parsed-objects.ts';
import { isOlder } from '../object/resource-version.ts';
import { TextArena } from './text-arena.ts';
import { Tombstones } from './tombstones.ts';

interface IndexedCacheOptions<T extends KubeObject> {
  readonly type: ResourceType<T>;
  readonly indexes?: Readonly<Record<string, IndexFunction<T>>> | undefined;
  /** How many of the most recently read objects are kept parsed, in addition to their texts. Default: 512. */
  readonly parsedLimit?: number | undefined;
  readonly logger?: Logger;
}

/** A change of one object. */
export interface CacheChange<T extends KubeObject> {
  readonly type: 'added' | 'modified' | 'deleted';
  /** As {@link objectKey} makes it. */
  readonly key: string;
  /** Its current state; if it was deleted, the last known one. */
  readonly object: T;
  /** Its previous state; undefined if it is new. Parsed on access. */
  readonly previous: T | undefined;
}

type CacheListener<T extends KubeObject> = (change: CacheChange<T>) => void;

/** The result of a write. `stale`: the cache has something newer, so nothing was done. */
export type Written = 'added' | 'modified' | 'deleted' | 'same' | 'stale';

interface Entry {
  version: string;
  /** Handle of its text in the arena. */
  handle: number;
  /** Number of the last list that contained it or, if it was changed later, of the newest list at that time. */
  list: number;
  /** The object's values in each index. */
  values: IndexValues;
}

export type Refusal = 'forbidden' | 'unserved';

/**
 * Objects by key and by index.
 *
 * Objects are shared by all readers and must not be changed: they are not frozen, because that costs more
 * than it is worth. Use `structuredClone` for changes. Two reads may return different instances of the same
 * state; compare `metadata.resourceVersion`. Objects have `apiVersion` and `kind`, even if a list omits them.
 *
 * Objects are kept as their JSON and parsed when they are read, some 15 µs for one of 2 kB, unless they are
 * among those read last. An object takes its JSON in UTF-8 and about 250 bytes, with each index some 50 more.
 *
 * @example
 * const cache = new IndexedCache({ type: pods, indexes: { node: (pod) => [pod.spec?.nodeName ?? ''] } });
 * using _log = cache.subscribe(({ type, key }) => logger.info({ key }, type));
 * const reflecting = runReflector({ client, cache, signal, logger });
 * await cache.synced;
 * for (const pod of cache.byIndex('node', 'worker-1')) print(pod.metadata.name);
 */
export class IndexedCache<T extends KubeObject> {
  readonly type: ResourceType<T>;
  readonly #apiVersion: string;
  readonly #logger: Logger | undefined;
  readonly #entries = new Map<string, Entry>();
  readonly #texts = new TextArena();
  readonly #parsed: ParsedObjects<T>;
  readonly #indexes: CacheIndexes<T>;
  readonly #listeners = new Set<CacheListener<T>>();
  readonly #synced = Promise.withResolvers<void>();
  readonly #refused = Promise.withResolvers<Refusal>();
  #refusal: Refusal | undefined;
  readonly #tombstones = new Tombstones();
  #isSynced = false;
  /** Number of lists begun so far. */
  #lists = 0;
  #faults = 0;

  /** @throws {RampartError} `INPUT` for options that cannot work. */
  constructor(options: IndexedCacheOptions<T>) {
    const { type, indexes = {}, parsedLimit = 512, logger } = options;
    this.type = type;
    this.#apiVersion = apiVersionOf(type);
    this.#logger = logger;
    this.#parsed = new ParsedObjects(parsedLimit);
    this.#indexes = new CacheIndexes(indexes, (error, key, index) =>
      this.#fault(error, key, `index ${index} failed; the object is not in it`),
    );
  }

  /** Resolves when the first list is complete. Before that, objects that are missing here may exist. */
  get synced(): Promise<void> {
    return this.#synced.promise;
  }

  get isSynced(): boolean {
    return this.#isSynced;
  }

  /** Why the API did not answer the last list: it does not serve the kind, or does not permit it. Undefined once it does. */
  get refusal(): Refusal | undefined {
    return this.#refusal;
  }

  /** Resolves with the first refusal, for callers that can do without the objects. They are still listed once the API serves them. */
  get refused(): Promise<Refusal> {
    return this.#refused.promise;
  }

  /** Set by the reflector that feeds the cache. */
  set refusal(refusal: Refusal | undefined) {
    this.#refusal = refusal;
    if (refusal !== undefined) this.#refused.resolve(refusal);
  }

  get size(): number {
    return this.#entries.size;
  }

  /** For metrics: bytes of the objects' texts, bytes allocated for them, and number of exceptions of listeners and indexes. */
  stats(): { readonly textBytes: number; readonly reservedBytes: number; readonly faults: number } {
    const { liveBytes: textBytes, reservedBytes } = this.#texts;
    return { textBytes, reservedBytes, faults: this.#faults };
  }

  get(key: string): T | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    const known = this.#parsed.get(key);
    if (known !== undefined) return known;
    const object = this.#parse(this.#texts.read(entry.handle));
    this.#parsed.set(key, object);
    return object;
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  /** The version of the cached object, without parsing it. */
  versionOf(key: string): string | undefined {
    return this.#entries.get(key)?.version;
  }

  /** All keys, in no particular order. */
  keys(): IterableIterator<string> {
    return this.#entries.keys();
  }

  /** All objects, in no particular order, each parsed when it is yielded. Let other work run in between; later changes may be missed. */
  *list(): Generator<T, void> {
    for (const [key, { handle }] of this.#entries) {
      // A walk through all objects must not evict objects that others read often.
      yield this.#parsed.peek(key) ?? this.#parse(this.#texts.read(handle));
    }
  }

  /**
   * @throws {RampartError} `INPUT` for an unknown index; the same is true of the other methods for indexes.
   */
  byIndex(name: string, value: string): T[] {
    return this.keysByIndex(name, value).map((key) => this.get(key) as T);
  }

  keysByIndex(name: string, value: string): readonly string[] {
    return this.#indexes.get(name).keys(value);
  }

  /** The values under which there are objects. */
  indexValues(name: string): IterableIterator<string> {
    return this.#indexes.get(name).values();
  }

  /**
   * Reports each change from now on, right after it was made; `keys()` has the earlier objects. Meant for
   * putting keys into a queue: a listener must be quick, and must not depend on the kind of change. Its
   * errors are logged. Dispose the result to unsubscribe.
   */
  subscribe(listener: CacheListener<T>): Disposable {
    // The same function twice is two subscriptions.
    const own: CacheListener<T> = (change) => listener(change);
    this.#listeners.add(own);
    return { [Symbol.dispose]: () => void this.#listeners.delete(own) };
  }

  /**
   * Adds indexes; existing ones with the same function stay. Every object is parsed for a new one.
   *
   * @throws {RampartError} `INPUT` for the name of an index with another function.
   */
  addIndexes(functions: Readonly<Record<string, IndexFunction<T>>>): void {
    if (!this.#indexes.add(functions)) return;
    for (const [key, entry] of this.#entries) {
      const object = this.#parsed.peek(key) ?? this.#parse(this.#texts.read(entry.handle));
      entry.values = this.#indexes.update(key, entry.values, object);
    }
  }

  // The following methods are for the reflector that feeds the cache.

  /** Begins a full list; earlier lists that were not completed are void. */
  beginList(): void {
    this.#lists++;
  }

  /** `text` is the object's JSON, if known. `force` stores the object even if it is older than the cached one. */
  put(object: T, options: { readonly text?: string | undefined; readonly force?: boolean } = {}): Written {
    const key = objectKey(object);
    const version = object.metadata.resourceVersion ?? '';
    const entry = this.#entries.get(key);
    if (entry !== undefined && entry.version === version && version !== '') {
      entry.list = this.#lists;
      // After the server's data was restored from a backup, the same version may mean another state.
      if (!options.force || this.#texts.read(entry.handle) === (options.text ?? JSON.stringify(object))) {
        return 'same';
      }
    } else if (!options.force) {
      if (entry ? isOlder(version, entry.version) : this.#tombstones.covers(key, version)) return 'stale';
    }
    const text = options.text ?? JSON.stringify(object);
    this.#complete(object);
    if (entry === undefined) {
      this.#tombstones.delete(key);
      const values = this.#indexes.update(key, [], object);
      this.#entries.set(key, { version, handle: this.#texts.add(text), list: this.#lists, values });
      // Listeners soon read a changed object; they do not read a whole list.
      if (this.#isSynced) this.#parsed.set(key, object);
      this.#notify('added', key, object, undefined);
      return 'added';
    }
    const previous = this.#previous(key, entry);
    this.#texts.replace(entry.handle, text);
    entry.version = version;
    entry.list = this.#lists;
    entry.values = this.#indexes.update(key, entry.values, object);
    this.#parsed.set(key, object);
    this.#notify('modified', key, object, previous);
    return 'modified';
  }

  /** Removes a deleted object. `object` is its state in the event of its deletion. */
  remove(object: T): Written {
    const key = objectKey(object);
    const version = object.metadata.resourceVersion ?? '';
    const entry = this.#entries.get(key);
    if (entry !== undefined && isOlder(version, entry.version)) return 'stale';
    this.#tombstones.add(key, version);
    if (entry === undefined) return 'same';
    this.#complete(object);
    const previous = this.#previous(key, entry);
    this.#drop(key, entry);
    this.#notify('deleted', key, object, previous);
    return 'deleted';
  }

  /**
   * The list that was begun is complete, and its version is `version`: removes the objects that were not in it.
   *
   * @throws the signal's reason when it aborts.
   */
  async endList(version: string, signal?: AbortSignal): Promise<void> {
    for (const [key, entry] of this.#entries) {
      if (loopSlice.over) {
        await loopSlice.next();
        signal?.throwIfAborted();
      }
      if (entry.list === this.#lists) continue;
      const object = this.get(key) as T;
      this.#drop(key, entry);
      this.#notify('deleted', key, object, () => object);
    }
    this.#tombstones.reset(version);
    this.#isSynced = true;
    this.#synced.resolve();
  }

  #drop(key: string, entry: Entry): void {
    this.#entries.delete(key);
    this.#texts.remove(entry.handle);
    this.#parsed.delete(key);
    this.#indexes.remove(key, entry.values);
  }

  /** Returns a function for the state before a change; undefined if no listener can call it. */
  #previous(key: string, { handle }: Entry): (() => T) | undefined {
    if (this.#listeners.size === 0) return undefined;
    let object = this.#parsed.peek(key);
    if (object !== undefined) return () => object as T;
    const text = this.#texts.read(handle);
    return () => (object ??= this.#parse(text));
  }

  #notify(type: CacheChange<T>['type'], key: string, object: T, previous: (() => T) | undefined): void {
    if (this.#listeners.size === 0) return;
    const change = {
      type,
      key,
      object,
      get previous(): T | undefined {
        return previous?.();
      },
    };
    for (const listener of [...this.#listeners]) {
      try {
        listener(change);
      } catch (error) {
        this.#fault(error, key, 'a listener of the cache failed');
      }
    }
  }

  #fault(error: unknown, key: string, message: string): void {
    this.#faults++;
    this.#logger?.error({ err: error, resource: this.type.plural, key }, message);
  }

  #parse(text: string): T {
    return this.#complete(JSON.parse(text) as T);
  }

  /** Adds `apiVersion` and `kind`, which lists of built-in kinds omit. */
  #complete(object: T): T {
    const open = object as { apiVersion?: string; kind?: string };
    open.apiVersion ??= this.#apiVersion;
    open.kind ??= this.type.kind;
    return object;
  }
}
