/** Keeps a cache in step with the API server: lists, then watches from the version of the list, without end. */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import { Backoff } from '../../time/backoff.ts';
import { type Clock, sleep, systemClock } from '../../time/clock.ts';
import { loopSlice } from '../../time/loop-slice.ts';
import { CallScope } from '../client/call-scope.ts';
import {
  isForbidden,
  isGone,
  isNotFound,
  isUnreachable,
  KubeError,
  unreachable,
} from '../client/client-errors.ts';
import { type FailureLevel, failureLevels } from '../client/failure-level.ts';
import type { IndexedCache, Refusal } from './indexed-cache.ts';
import { parseListed } from './listed-object.ts';
import { type KubeObject, objectKey } from '../object/object.ts';
import type { ReflectorStats } from './reflector-metrics.ts';
import { checkReflectorOptions, defaultBackoff, type ReflectorOptions } from './reflector-options.ts';
import { compareVersions, isOlder } from '../object/resource-version.ts';
import type { WatchEvent } from '../client/watch.ts';

export type { ReflectorOptions } from './reflector-options.ts';

/** How often a failed page is requested again before the list is restarted. */
const PAGE_TRIES = 5;
/** After a paged list has expired this often, it is requested as a whole. */
const EXPIRED_LISTS = 2;
/**
 * After this many lists in a row that are older than the cache, the server must have been restored from a backup.
 */
const STALE_LISTS = 3;
/** After this many watches in a row that brought only an error, a list may help. */
const FAILED_WATCHES = 10;
/** Watches end between 5 and 10 minutes, at random, so that not all clients come back at once. */
const WATCH_SECONDS = 300;
/** If no byte of a list comes for this long, its connection is dead. */
const LIST_IDLE_MS = 30_000;
const ANSWER_MS = 60_000;
/** A watch that begins with this many old events or bookmarks is replaced by a list. */
const STALE_EVENTS = 3;
/** How much longer than requested a watch may last before the client ends it. */
const WATCH_SLACK_MS = 30_000;

/**
 * Feeds `options.cache` until `options.signal` aborts; then it resolves. No error of a server, a network, a
 * listener or a transform ends it: errors are logged, counted, and followed by another try. Guarantees:
 *
 * - The cache converges to the state of the server as soon as lists and watches come through.
 * - No object goes back to an older state, as far as versions can be compared, neither by repeated events
 *   nor by an old list. The one exception is a server that was restored from a backup: when three lists in a
 *   row are older than the cache, the third is taken.
 * - A resource that does not exist (404), or must not be listed (403), is an error like others: the cache
 *   keeps what it had, and is not synced if it never was.
 *
 * @throws {RampartError} `INPUT` for options that cannot work.
 * @example
 * const cache = new IndexedCache({ type: pods, indexes: { node: (pod) => [pod.spec?.nodeName ?? ''] } });
 * const reflecting = runReflector({ client, cache, signal });
 * await cache.synced;
 */
export async function runReflector<T extends KubeObject>(options: ReflectorOptions<T>): Promise<void> {
  checkReflectorOptions(options);
  const { cache, signal, metrics, name = cache.type.plural } = options;
  const reflector = new Reflector({ ...options, name });
  metrics?.add(name, reflector);
  try {
    if (!signal.aborted) await reflector.run();
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    metrics?.remove(name);
  }
}

class Reflector<T extends KubeObject> {
  readonly #options: ReflectorOptions<T> & { readonly name: string };
  readonly #cache: IndexedCache<T>;
  readonly #clock: Clock;
  readonly #level: FailureLevel;
  readonly #random: () => number;
  readonly #backoff: Backoff;
  readonly #healthyMs: number;
  readonly #errors: Record<string, number> = {};
  readonly #counts = { lists: 0, watches: 0, events: 0, bookmarks: 0, stale: 0, transformFaults: 0 };
  /** Everything up to this version is in the cache. */
  #version = '';
  /** The newest known version: an older list would undo what later events have brought. */
  #seen = '';
  /** Whether a watch cannot continue from here, so that a list is needed. */
  #listNeeded = true;
  #expiredLists = 0;
  #staleLists = 0;
  #failedWatches = 0;
  #reportedMs = -Infinity;

  constructor(options: ReflectorOptions<T> & { readonly name: string }) {
    const { random = Math.random, healthyMs = 30_000, clock = systemClock } = options;
    this.#options = options;
    this.#cache = options.cache;
    this.#clock = clock;
    this.#level = failureLevels(clock);
    this.#random = random;
    this.#backoff = new Backoff({ random, ...(options.backoff ?? defaultBackoff) });
    this.#healthyMs = healthyMs;
  }

  stats(): ReflectorStats {
    return {
      ...this.#counts,
      errors: { ...this.#errors },
      objects: this.#cache.size,
      bytes: this.#cache.stats().reservedBytes,
      ageMs: this.#clock.monotonicMs() - this.#reportedMs,
    };
  }

  /** @throws the signal's reason when it aborts, and nothing else. */
  async run(): Promise<void> {
    const { signal } = this.#options;
    for (;;) {
      let healthy = false;
      let askedMs = 0;
      try {
        if (this.#listNeeded) await this.#list();
        const beganMs = this.#clock.monotonicMs();
        try {
          await this.#watch();
        } finally {
          healthy = this.#clock.monotonicMs() - beganMs >= this.#healthyMs;
          if (healthy) this.#backoff.reset();
        }
        if (healthy) continue;
      } catch (error) {
        signal.throwIfAborted();
        this.#failed(error);
        askedMs = askedForMs(error);
      }
      await sleep(this.#clock, Math.max(this.#backoff.nextMs(), askedMs), signal);
    }
  }

  async #list(): Promise<void> {
    const { pageSize = 500, signal } = this.#options;
    const limit = this.#expiredLists < EXPIRED_LISTS ? pageSize : 0;
    const force = this.#staleLists >= STALE_LISTS - 1;
    this.#cache.beginList();
    let version: string | undefined;
    let token: string | undefined;
    do {
      const page = await this.#page(limit, token, force);
      // All pages have one version; if a server does otherwise, the first page is the oldest.
      version ??= page.resourceVersion;
      token = page.continue || undefined;
    } while (token !== undefined);
    if (version === undefined || version === '') {
      throw new RampartError(errorCodes.API_UNREACHABLE, {
        what: `cannot list ${this.#cache.type.plural}`,
        why: 'the list has no resourceVersion to watch from',
      });
    }
    if (isOlder(version, this.#seen) && !force) throw new StaleListError(version, this.#seen);
    await this.#cache.endList(version, signal);
    this.#version = version;
    this.#seen = version;
    this.#listNeeded = false;
    this.#expiredLists = 0;
    this.#staleLists = 0;
    this.#failedWatches = 0;
    this.#counts.lists++;
    this.#reportedMs = this.#clock.monotonicMs();
    const { name, logger } = this.#options;
    this.#cache.refusal = undefined;
    logger?.debug({ reflector: name, objects: this.#cache.size, version }, 'listed');
  }

  /** One page. If its answer breaks off, the same page is requested again: long lists would never end otherwise. */
  async #page(limit: number, token: string | undefined, force: boolean) {
    const { client, cache, signal, namespace, labelSelector, fieldSelector } = this.#options;
    const { idleTimeoutMs = LIST_IDLE_MS, answerTimeoutMs: openTimeoutMs = ANSWER_MS } = this.#options;
    const query = { labelSelector, fieldSelector, limit: limit === 0 ? undefined : limit, continue: token };
    const call = {
      ...query,
      signal,
      openTimeoutMs,
      idleTimeoutMs: Math.min(idleTimeoutMs, LIST_IDLE_MS),
      onItem: (text: string): void => this.#listed(text, force),
    };
    const backoff = new Backoff({ random: this.#random, ...(this.#options.backoff ?? defaultBackoff) });
    for (;;) {
      try {
        return await client.listItems(cache.type, { namespace }, call);
      } catch (error) {
        signal.throwIfAborted();
        const again = isUnreachable(error) || (error instanceof KubeError && error.status >= 429);
        // For the first page, a new list is just as good.
        if (token === undefined || !again || backoff.attempts >= PAGE_TRIES - 1) throw error;
        this.#note(error, 'a page of a list failed; retrying');
        await sleep(this.#clock, Math.max(backoff.nextMs(), askedForMs(error)), signal);
      }
    }
  }

  #listed(text: string, force: boolean): void {
    const { object, isShortened } = parseItem<T>(text, this.#cache.type.plural);
    const asItCame =
      this.#options.transform === undefined && !isShortened && object.metadata.managedFields === undefined;
    const version = object.metadata.resourceVersion ?? '';
    const written = this.#cache.put(asItCame ? object : this.#transform(object), {
      ...(asItCame && { text }),
      force,
    });
    if (written === 'stale') throw new StaleListError(version, this.#seen);
    // The version counts as seen even if the rest of the list fails.
    this.#see(version);
  }

  async #watch(): Promise<void> {
    const { client, cache, namespace, labelSelector, fieldSelector, idleTimeoutMs = 150_000 } = this.#options;
    const timeoutSeconds = Math.ceil(WATCH_SECONDS * (1 + this.#random()));
    using scope = new CallScope(this.#clock, this.#options.signal);
    const ended = new Error('a watch that the server does not end');
    scope.limit(timeoutSeconds * 1000 + WATCH_SLACK_MS, () => ended);
    let [fresh, stale] = [false, 0];
    this.#counts.watches++;
    try {
      const events = client.watch(
        cache.type,
        { namespace },
        {
          signal: scope.signal,
          resourceVersion: this.#version,
          allowWatchBookmarks: true,
          timeoutSeconds,
          idleTimeoutMs,
          openTimeoutMs: this.#options.answerTimeoutMs ?? ANSWER_MS,
          labelSelector,
          fieldSelector,
        },
      );
      for await (const event of events) {
        if (this.#apply(event)) fresh = true;
        else stale++;
        if (!fresh && stale >= STALE_EVENTS) break;
        if (loopSlice.over) await loopSlice.next();
      }
      this.#failedWatches = 0;
    } catch (error) {
      this.#failedWatches = fresh ? 0 : this.#failedWatches + 1;
      if (error !== ended) throw error;
    } finally {
      // Only old events came: the server may have been restored from a backup, which only a list can show.
      if (stale > 0 && !fresh) this.#listNeeded = true;
    }
  }

  /** Whether the event was news: not stale, and not a repetition. */
  #apply({ type, object }: WatchEvent<T>): boolean {
    this.#reportedMs = this.#clock.monotonicMs();
    const version = object.metadata.resourceVersion ?? '';
    if (type === 'BOOKMARK') {
      this.#counts.bookmarks++;
      const advanced = this.#advance(version);
      if (!advanced) this.#counts.stale++;
      return advanced;
    }
    const written =
      type === 'DELETED' ? this.#cache.remove(object) : this.#cache.put(this.#transform(object));
    if (written === 'stale') this.#counts.stale++;
    else this.#counts.events++;
    const advanced = this.#advance(version);
    return written !== 'stale' && (advanced || written !== 'same');
  }

  /** Moves the version that the next watch continues from; never back. */
  #advance(version: string): boolean {
    if (version === '') return false;
    const order = compareVersions(version, this.#version);
    if (order !== undefined && order < 0) return false;
    this.#version = version;
    this.#see(version);
    return true;
  }

  #see(version: string): void {
    if (!isOlder(version, this.#seen)) this.#seen = version;
  }

  #transform(object: T): T {
    const { transform = asItIs, name, logger } = this.#options;
    const key = objectKey(object);
    try {
      const kept = transform(withoutManagedFields(object));
      if (objectKey(kept) !== key) throw new TypeError('the transformed object has another name');
      return kept;
    } catch (error) {
      this.#counts.transformFaults++;
      logger?.error({ reflector: name, key, err: error }, 'an object cannot be transformed');
      return object;
    }
  }

  /** Decides whether to list or to watch next, by the reason that a list or a watch failed. */
  #failed(error: unknown): void {
    if (error instanceof StaleListError) this.#staleLists++;
    if (isGone(error)) {
      if (this.#listNeeded) this.#expiredLists++;
      this.#listNeeded = true;
    }
    if (asksForList(error) || this.#failedWatches >= FAILED_WATCHES) this.#listNeeded = true;
    this.#note(error, this.#listNeeded ? 'will list' : 'will watch from where it was');
  }

  #note(error: unknown, message: string): void {
    const reason = reasonOf(error);
    this.#errors[reason] = (this.#errors[reason] ?? 0) + 1;
    const { name, logger } = this.#options;
    const before = this.#cache.refusal;
    // An API that does not serve the kind answers like this until the kind is installed.
    if (!isUnreachable(error)) this.#cache.refusal = refusalIn(error);
    const isUnserved = this.#cache.refusal === 'unserved';
    const isKnown = isUnserved && before === 'unserved';
    // These failures are everyday; callers that wait for a kind that was never served report it themselves.
    const isEveryday = isGone(error) || isUnreachable(error) || (isUnserved && !this.#cache.isSynced);
    const level = isKnown || this.#level(error, 0) === 'debug' ? 'debug' : isEveryday ? 'info' : 'warn';
    logger?.[level]({ reflector: name, err: error, attempts: this.#backoff.attempts }, message);
  }
}

function refusalIn(error: unknown): Refusal | undefined {
  if (isNotFound(error)) return 'unserved';
  return isForbidden(error) ? 'forbidden' : undefined;
}

/** Deletes the managed fields: they are a third or more of a typical object, and only the server needs them. */
function withoutManagedFields<T extends KubeObject>(object: T): T {
  if (object.metadata.managedFields !== undefined) delete object.metadata.managedFields;
  return object;
}

function asItIs<T>(object: T): T {
  return object;
}

function parseItem<T extends KubeObject>(
  text: string,
  plural: string,
): { readonly object: T; readonly isShortened: boolean } {
  let listed: ReturnType<typeof parseListed>;
  try {
    listed = parseListed(text);
  } catch {
    throw unreachable(`list ${plural}`, 'an item is not JSON');
  }
  const { value, isShortened } = listed;
  if (typeof value === 'object' && value !== null && 'metadata' in value)
    return { object: value as T, isShortened };
  throw unreachable(`list ${plural}`, 'an item is not an API object');
}

/** Upper limit for the delays that a server asks for. */
const MAX_ASKED_MS = 60_000;

/** A list is of an older state than what is known. */
class StaleListError extends RampartError {
  constructor(version: string, known: string) {
    super(errorCodes.EXPIRED, {
      what: 'a list from the Kubernetes API is out of date',
      why: `it has version ${version}, but ${known} or later is known`,
    });
    this.name = 'StaleListError';
  }
}

/** How long the server asks to wait, up to a minute. */
function askedForMs(error: unknown): number {
  return error instanceof KubeError ? Math.min(error.retryAfterMs ?? 0, MAX_ASKED_MS) : 0;
}

/** Answers to a watch that say that its version is of no use: it cannot be read, or the server has not reached it yet. */
function asksForList(error: unknown): boolean {
  if (!(error instanceof KubeError)) return false;
  if (error.status === 400 || error.status === 422) return true;
  // apimachinery's CauseTypeResourceVersionTooLarge, which is the `reason` of a cause in JSON.
  return (error.details?.causes ?? []).some(({ reason }) => reason === 'ResourceVersionTooLarge');
}

/** The reason of an error as a metric label: one of a few values. */
function reasonOf(error: unknown): string {
  if (isGone(error)) return 'expired';
  if (error instanceof StaleListError) return 'stale';
  if (error instanceof KubeError) {
    const { status } = error;
    return Number.isInteger(status) && status >= 400 && status <= 599 ? `http_${status}` : 'http_other';
  }
  if (isUnreachable(error)) return 'unreachable';
  return error instanceof RampartError && error.code === errorCodes.LIMIT ? 'limit' : 'other';
}
