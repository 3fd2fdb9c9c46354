/** One reflector for all callers that need the same objects. */
import type { Logger } from '../../telemetry/log.ts';
import type { IndexFunction } from './cache-index.ts';
import { IndexedCache } from './indexed-cache.ts';
import type { KubeObject, ResourceType } from '../object/object.ts';
import type { ReflectorMetrics } from './reflector-metrics.ts';
import { runReflector } from './reflector.ts';
import type { ReflectorClient } from './reflector-options.ts';

/** Which objects to cache, and which part of each. */
export interface CacheQuery<T extends KubeObject> {
  readonly type: ResourceType<T>;
  /** Default: all. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /**
   * Reduces an object to the part to keep; it may change its argument, which has no `metadata.managedFields`.
   * Pass the same function to share a reflector. Default: keeps everything.
   */
  readonly projection?: (object: T) => T;
  /** Added to the indexes of other users. A name identifies one function. */
  readonly indexes?: Readonly<Record<string, IndexFunction<T>>>;
  /** See IndexedCache; ignored for a cache that exists already. */
  readonly parsedLimit?: number;
}

interface SharedCachesOptions {
  readonly client: ReflectorClient;
  readonly logger: Logger;
  readonly metrics?: ReflectorMetrics | undefined;
  /** Called if a reflector fails for good, because its options cannot work. */
  readonly onFailure: (error: unknown) => void;
}

interface Shared {
  readonly cache: IndexedCache<KubeObject>;
  readonly stop: AbortController;
  readonly ended: Promise<void>;
  users: number;
}

/**
 * The caches of a process. A cache is kept while it is in use.
 *
 * @example
 * const caches = new SharedCaches({ client, logger, onFailure });
 * const pods = caches.use({ type: podType, projection: podFacts }, signal); // a reflector begins
 * const same = caches.use({ type: podType, projection: podFacts }, other); // pods === same
 */
export class SharedCaches {
  readonly #options: SharedCachesOptions;
  readonly #shared = new Map<string, Shared>();
  readonly #projections = new Map<unknown, number>();
  /** Names of running reflectors, for logs and metrics. */
  readonly #names = new Set<string>();

  constructor(options: SharedCachesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#shared.size;
  }

  /**
   * The cache of a query, until `signal` aborts: then its content stays, and it is no longer fed unless it
   * has other users.
   *
   * @throws {RampartError} `INPUT` for an index whose name is taken by another function.
   */
  use<T extends KubeObject>(query: CacheQuery<T>, signal: AbortSignal): IndexedCache<T> {
    const key = this.#keyOf(query);
    let shared = this.#shared.get(key);
    if (shared === undefined) {
      shared = this.#begin(query);
      this.#shared.set(key, shared);
    } else {
      (shared.cache as unknown as IndexedCache<T>).addIndexes(query.indexes ?? {});
    }
    const { cache, stop } = shared;
    const own = shared;
    own.users++;
    const release = (): void => {
      if (--own.users > 0) return;
      if (this.#shared.get(key) === own) this.#shared.delete(key);
      stop.abort();
    };
    if (signal.aborted) release();
    else signal.addEventListener('abort', release, { once: true });
    return cache as unknown as IndexedCache<T>;
  }

  /** Resolves when all reflectors without users have ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    const all = [...this.#shared.values()];
    this.#shared.clear();
    for (const { stop } of all) stop.abort();
    await Promise.all(all.map(({ ended }) => ended));
  }

  #keyOf<T extends KubeObject>({ type, projection, ...query }: CacheQuery<T>): string {
    let number = this.#projections.get(projection);
    if (number === undefined) this.#projections.set(projection, (number = this.#projections.size));
    const { namespace, labelSelector, fieldSelector } = query;
    return JSON.stringify([
      ...[type.group, type.version, type.plural, number],
      ...[namespace ?? '', labelSelector ?? '', fieldSelector ?? ''],
    ]);
  }

  #begin<T extends KubeObject>(query: CacheQuery<T>): Shared {
    const { client, logger, metrics, onFailure } = this.#options;
    const { type, indexes, parsedLimit, namespace, labelSelector, fieldSelector, projection } = query;
    const cache = new IndexedCache<T>({
      type,
      logger,
      indexes,
      parsedLimit,
    });
    const stop = new AbortController();
    const name = this.#nameOf(type);
    this.#names.add(name);
    const ended = runReflector({
      ...{ client, cache, signal: stop.signal, logger, name },
      ...{ namespace, labelSelector, fieldSelector },
      transform: projection,
      metrics,
    })
      .catch(onFailure)
      .finally(() => this.#names.delete(name));
    return { cache: cache as unknown as IndexedCache<KubeObject>, stop, ended, users: 0 };
  }

  /** `pods`, `fileintegrities.fileintegrity.openshift.io`; `pods-2` for another query of a kind. */
  #nameOf({ group, plural }: Pick<ResourceType, 'group' | 'plural'>): string {
    const name = group === '' ? plural : `${plural}.${group}`;
    let free = name;
    for (let number = 2; this.#names.has(free); number++) free = `${name}-${number}`;
    return free;
  }
}
