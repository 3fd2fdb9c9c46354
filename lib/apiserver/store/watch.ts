/**
 * Watches: who follows the changes of a resource.
 *
 * A watch has no queue. It has a place in the history, and takes from there what is new when its reader asks.
 * So a slow reader costs no memory; it ends with `ExpiredError` when the history is compacted beyond its place.
 */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { ChangeFilter, History } from './history.ts';
import type { Change, Revision } from './object.ts';

type Batch = IteratorResult<readonly Change[], undefined>;

interface Waiting {
  readonly resolve: (batch: Batch) => void;
  readonly reject: (error: unknown) => void;
}

const finished: Batch = { done: true, value: undefined };

/**
 * Changes after a version, in order, each exactly once, in batches of what is there; never an empty one.
 *
 * ```ts
 * for await (const changes of store.watch('pods', { fromVersion: list.version, signal })) {
 *   for (const { type, object } of changes) response.write(`${type} ${object.text}\n`);
 * }
 * ```
 *
 * It ends when its signal is aborted or it is disposed. Reading it throws `ExpiredError` when its reader has
 * fallen behind the compacted version, `CORRUPT` and `SYSTEM`, and `DISPOSED` when the store is closed.
 */
export class Watch implements AsyncIterableIterator<readonly Change[]>, Disposable {
  readonly #hub: WatchHub;
  readonly filter: ChangeFilter;
  readonly #signal: AbortSignal;
  /** All changes up to here were handed out. */
  #cursor: bigint;
  /** All changes up to here were handed out, and their reader has come back for more. */
  #handled: bigint;
  #waiting: Waiting | undefined;
  #ended = false;

  /** Made by {@link WatchHub.watch}. */
  constructor(hub: WatchHub, filter: ChangeFilter, fromVersion: bigint, signal: AbortSignal) {
    this.#hub = hub;
    this.filter = filter;
    this.#signal = signal;
    this.#cursor = fromVersion;
    this.#handled = fromVersion;
    if (signal.aborted) this.#ended = true;
    else signal.addEventListener('abort', this.#end, { once: true });
  }

  /** A version up to which the reader has had all changes, for a bookmark: it grows also while nothing matches. */
  get version(): bigint {
    const { version } = this.#hub.history;
    return this.#waiting !== undefined && version > this.#handled ? version : this.#handled;
  }

  next(): Promise<Batch> {
    if (this.#waiting !== undefined) {
      return Promise.reject(
        new RampartError(errorCodes.INPUT, { what: 'cannot read a watch', why: 'it is already being read' }),
      );
    }
    this.#handled = this.#cursor;
    return new Promise((resolve, reject) => {
      if (this.#ended) {
        resolve(finished);
        return;
      }
      try {
        this.#hub.checkOpen();
        const changes = this.#take();
        if (changes.length > 0) {
          resolve({ done: false, value: changes });
          return;
        }
        this.#waiting = { resolve, reject };
        this.#hub.add(this);
      } catch (error) {
        this.#end();
        reject(error);
      }
    });
  }

  return(): Promise<Batch> {
    this.#end();
    return Promise.resolve(finished);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  [Symbol.dispose](): void {
    this.#end();
  }

  /** Called by the hub, while this watch waits, with the matching changes of one commit. The watch has already seen everything up to `before`. */
  offer(changes: readonly Change[], before: bigint): void {
    // A list may have seen a commit before it was published to the hub.
    const fresh = changes.filter((change) => change.object.resourceVersion > this.#cursor);
    const waiting = this.#waiting;
    if (fresh.length === 0 || waiting === undefined) return;
    this.#stopWaiting();
    if (before > this.#handled) this.#handled = before;
    this.#cursor = this.#hub.history.version;
    waiting.resolve({ done: false, value: fresh });
  }

  /** Called by the hub when there will be nothing more. */
  fail(error: unknown): void {
    const waiting = this.#waiting;
    this.#stopWaiting();
    this.#end();
    waiting?.reject(error);
  }

  #take(): readonly Change[] {
    const { history } = this.#hub;
    while (this.#cursor < history.version) {
      const { changes, upTo } = history.changesAfter(this.#cursor, this.filter);
      this.#cursor = upTo;
      if (changes.length > 0) return changes;
    }
    return [];
  }

  #stopWaiting(): void {
    this.#waiting = undefined;
    this.#hub.remove(this);
  }

  readonly #end = (): void => {
    this.#ended = true;
    this.#signal.removeEventListener('abort', this.#end);
    const waiting = this.#waiting;
    this.#stopWaiting();
    waiting?.resolve(finished);
  };
}

/** Hands committed changes to the watches that wait for them. */
export class WatchHub {
  readonly history: History;
  /** Only waiting ones, so that an abandoned watch is garbage. */
  readonly #waiting = new Map<string, Set<Watch>>();
  #closed: RampartError | undefined;

  constructor(history: History) {
    this.history = history;
  }

  watch(filter: ChangeFilter, fromVersion: bigint, signal: AbortSignal): Watch {
    return new Watch(this, filter, fromVersion, signal);
  }

  /** Publishes changes; never throws. */
  publish(committed: readonly Revision[]): void {
    const before = this.history.version;
    this.history.publish(committed);
    const byResource = Map.groupBy(committed, ({ resource }) => resource);
    for (const [resource, changes] of byResource) {
      const watches = this.#waiting.get(resource);
      if (watches !== undefined) this.#deliver(changes, watches, before);
    }
  }

  /** Ends the watches. Only the first error counts. */
  close(error: RampartError): void {
    this.#closed ??= error;
    for (const watches of [...this.#waiting.values()]) for (const watch of [...watches]) watch.fail(error);
  }

  /** @throws {RampartError} `DISPOSED` */
  checkOpen(): void {
    if (this.#closed !== undefined) throw this.#closed;
  }

  add(watch: Watch): void {
    const { resource } = watch.filter;
    const watches = this.#waiting.get(resource) ?? new Set();
    watches.add(watch);
    this.#waiting.set(resource, watches);
  }

  remove(watch: Watch): void {
    const { resource } = watch.filter;
    const watches = this.#waiting.get(resource);
    if (watches?.delete(watch) && watches.size === 0) this.#waiting.delete(resource);
  }

  /** The changes a filter asks for are picked once for all watches with the same filter. */
  #deliver(committed: readonly Revision[], watches: ReadonlySet<Watch>, before: bigint): void {
    const picked = new Map<string, readonly Change[]>();
    for (const watch of [...watches]) {
      const { namespace, withPrevious } = watch.filter;
      try {
        const like = `${withPrevious ? '+' : '-'}${namespace ?? '*'}`;
        let changes = picked.get(like);
        if (changes === undefined) {
          changes = committed
            .filter((change) => namespace === undefined || change.namespace === namespace)
            .map((change) => this.history.changeOf(change, withPrevious));
          picked.set(like, changes);
        }
        watch.offer(changes, before);
      } catch (error) {
        watch.fail(error);
      }
    }
  }
}
