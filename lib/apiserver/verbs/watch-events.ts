/** The events of one watch: the changes of selected objects, and bookmarks. */
import { apiErrors } from '../resources/api-error.ts';
import { ExpiredError } from '../store/errors.ts';
import { type Change, restamp, type StoredObject } from '../store/object.ts';
import type { Watch } from '../store/watch.ts';
import type { VerbContext } from './context.ts';
import { answerOf } from './failures.ts';
import type { WatchOptions } from './list-options.ts';
import type { ResourceRequest, WatchEvent } from './request.ts';
import type { Selection } from './selection.ts';
import { itemOf, sharedItem } from '../resources/item.ts';
import type { Resource } from '../resources/resource.ts';

type Batch = IteratorResult<readonly WatchEvent[], undefined>;

const finished: Batch = { done: true, value: undefined };

interface Waiting {
  readonly resolve: (batch: Batch) => void;
  readonly reject: (error: unknown) => void;
}

/** Events, and the version up to which they are complete. */
interface Ready {
  readonly events: readonly WatchEvent[];
  readonly upTo: bigint;
}

export interface Beginning {
  /** The watch delivers the changes after this version. */
  readonly version: bigint;
  readonly initial: Iterable<readonly WatchEvent[]>;
}

/**
 * For a single reader. Holds timers and a listener of the registry until it ends: because of its timeout, its signal, a kind
 * that is no longer served, an error, or `return`.
 */
export class WatchEvents implements AsyncIterableIterator<readonly WatchEvent[]> {
  readonly #context: VerbContext;
  readonly #request: ResourceRequest;
  readonly #selection: Selection;
  readonly #allowBookmarks: boolean;
  readonly #initial: Iterator<readonly WatchEvent[]>;
  readonly #stop = new AbortController();
  readonly #cancel: (() => void)[] = [];
  #cancelBookmark: (() => void) | undefined;
  /** All changes up to this version were delivered. */
  #given: bigint;
  #watch: Watch | undefined;
  #waiting: Waiting | undefined;
  /** Whether a read from the store's watch is pending. */
  #isReading = false;
  /** Events that were read while no call of `next` waited. */
  #ready: Ready | undefined;
  #failure: { readonly error: unknown } | undefined;
  #isBookmarkDue = false;
  /** `due`: only the last bookmark remains to be sent. */
  #end: 'none' | 'due' | 'ended' = 'none';

  constructor(
    context: VerbContext,
    request: ResourceRequest,
    selection: Selection,
    { allowBookmarks, timeoutSeconds = 0 }: WatchOptions,
    { version, initial }: Beginning,
  ) {
    this.#context = context;
    this.#request = request;
    this.#selection = selection;
    this.#allowBookmarks = allowBookmarks;
    this.#initial = initial[Symbol.iterator]();
    this.#given = version;
    const { clock, random, registry, minWatchMs } = context;
    if (request.signal.aborted || !isServed(context, request)) {
      this.#end = 'ended';
      return;
    }
    const stop = (): void => this.#finish();
    request.signal.addEventListener('abort', stop, { once: true });
    const served = registry.onChange(() => {
      if (!isServed(context, request)) stop();
    });
    const timeMs = timeoutSeconds === 0 ? minWatchMs * (1 + random()) : timeoutSeconds * 1000;
    this.#cancel.push(
      () => request.signal.removeEventListener('abort', stop),
      () => served[Symbol.dispose](),
      clock.schedule(timeMs, () => this.#timeUp()),
    );
    // The first bookmark comes at a random time, so that those of many watches do not coincide.
    if (allowBookmarks) this.#scheduleBookmark(random());
  }

  next(): Promise<Batch> {
    return new Promise((resolve, reject) => {
      if (this.#waiting !== undefined) {
        reject(new TypeError('a watch has one reader'));
        return;
      }
      this.#waiting = { resolve, reject };
      try {
        this.#serve();
      } catch (error) {
        this.#fail(error);
      }
    });
  }

  return(): Promise<Batch> {
    this.#finish();
    return Promise.resolve(finished);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Gives the waiting reader what is available; otherwise reads from the store. */
  #serve(): void {
    if (this.#end === 'ended') {
      this.#give(finished);
      return;
    }
    if (this.#failure !== undefined) {
      this.#fail(this.#failure.error);
      return;
    }
    const { done, value } = this.#initial.next();
    if (done !== true) {
      this.#give({ done: false, value });
      return;
    }
    if (this.#ready !== undefined) {
      this.#giveRead(this.#ready);
      return;
    }
    if (!this.#isReading && this.#end === 'none') this.#read();
    this.#serveBookmark();
  }

  /** A bookmark means that all earlier changes were delivered, so it is sent only if nothing else can be. */
  #serveBookmark(): void {
    if (this.#waiting === undefined || this.#ready !== undefined) return;
    if (this.#end === 'due') this.#finish(this.#bookmark());
    else if (this.#isBookmarkDue) this.#give(this.#bookmark());
  }

  #bookmark(): Batch {
    this.#isBookmarkDue = false;
    if (!this.#allowBookmarks) return finished;
    const { version = 0n } = this.#watch ?? {};
    if (version > this.#given) this.#given = version;
    return { done: false, value: [{ type: 'BOOKMARK', version: this.#given, initialEventsEnd: false }] };
  }

  #read(): void {
    const { namespace, looksInside } = this.#selection;
    this.#watch ??= this.#context.store.watch(this.#request.resource.storeName, {
      namespace,
      fromVersion: this.#given,
      withPrevious: looksInside,
      signal: this.#stop.signal,
    });
    this.#isReading = true;
    this.#watch.next().then(
      (batch) => this.#received(batch),
      (error: unknown) => {
        this.#isReading = false;
        this.#fail(error);
      },
    );
  }

  #received({ done, value: changes }: IteratorResult<readonly Change[], undefined>): void {
    this.#isReading = false;
    if (this.#end === 'ended') return;
    if (done === true) {
      this.#finish();
      return;
    }
    try {
      const { resource } = this.#request;
      const events: WatchEvent[] = [];
      for (const change of changes) {
        const event = seenChange(resource, this.#selection, change);
        if (event !== undefined) events.push(event);
      }
      const upTo = changes.at(-1)?.object.resourceVersion ?? this.#given;
      if (events.length > 0) this.#giveRead({ events, upTo });
      else {
        this.#given = upTo;
        if (this.#waiting !== undefined) this.#serve();
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  #giveRead(read: Ready): void {
    if (this.#waiting === undefined) {
      this.#ready = read;
      return;
    }
    this.#ready = undefined;
    this.#given = read.upTo;
    this.#give({ done: false, value: read.events });
  }

  #give(batch: Batch): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve(batch);
  }

  /** Ends with an error, which the waiting or the next call of `next` throws. */
  #fail(error: unknown): void {
    const waiting = this.#waiting;
    if (waiting === undefined) {
      this.#failure = { error };
      return;
    }
    this.#waiting = undefined;
    this.#finish();
    waiting.reject(answerOf(withExpiry(error), this.#request.resource, ''));
  }

  #timeUp(): void {
    if (this.#end !== 'none') return;
    this.#end = 'due';
    this.#serveBookmark();
  }

  #scheduleBookmark(part: number): void {
    const { clock, bookmarkIntervalMs } = this.#context;
    this.#cancelBookmark = clock.schedule(bookmarkIntervalMs * part, () => {
      this.#isBookmarkDue = true;
      this.#scheduleBookmark(1);
      this.#serveBookmark();
    });
  }

  #finish(last: Batch = finished): void {
    this.#end = 'ended';
    this.#initial.return?.();
    this.#ready = undefined;
    this.#failure = undefined;
    this.#stop.abort();
    for (const cancel of this.#cancel.splice(0)) cancel();
    this.#cancelBookmark?.();
    this.#give(last);
  }
}

/** The error for the client if a watch cannot continue (apiserver `pkg/storage/cacher/watch_cache.go`). */
function withExpiry(error: unknown): unknown {
  if (!(error instanceof ExpiredError)) return error;
  return apiErrors.expired(`too old resource version: ${error.version} (${error.compactedVersion})`);
}

/** Whether the kind is still served as at the beginning of the watch. */
function isServed({ registry }: VerbContext, { resource }: ResourceRequest): boolean {
  const { group, version, plural } = resource;
  return registry.find(group, version, plural) === resource;
}

/** The event for a change, whose item all watches share; `undefined` if the selection does not include the object. */
function seenChange(resource: Resource, selection: Selection, change: Change): WatchEvent | undefined {
  const { type, previous } = change;
  const item = itemOf(resource, change);
  if (selection.isAll) return { type, item };
  const matches = selection.matches(item);
  if (type !== 'MODIFIED' || !selection.looksInside || previous === undefined) {
    return matches ? { type, item } : undefined;
  }
  const matched = selection.matches(sharedItem(resource, previous));
  if (matches) return { type: matched ? 'MODIFIED' : 'ADDED', item };
  return matched ? { type: 'DELETED', item: sharedItem(resource, departed(change, previous)) } : undefined;
}

const departures = new WeakMap<Change, StoredObject>();

/**
 * The object of a DELETED event for a watch whose selection no longer includes it: its previous state, with the version of
 * the change.
 */
function departed(change: Change, previous: StoredObject): StoredObject {
  let object = departures.get(change);
  if (object === undefined) {
    object = restamp(previous, change.object.resourceVersion);
    departures.set(change, object);
  }
  return object;
}
