/**
 * Watches follow the changes of a resource.
 *
 * A watch has no queue, only a position in the history: when its reader wants more, it reads the changes after that. So a
 * slow reader costs no memory; its watch ends with `ExpiredError` if the history is compacted beyond that position.
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
 * Changes after a version, in order, each exactly once, in batches of those available; a batch is never empty.
 *
 * ```ts
 * for await (const changes of store.watch('pods', { fromVersion: list.version, signal })) {
 *   for (const { type, object } of changes) response.write(`${type} ${object.text}\n`);
 * }
 * ```
 *
 * It ends when its signal is aborted or it is disposed. Reading throws `ExpiredError` if the reader has fallen behind the
 * compacted version, `CORRUPT`, `SYSTEM`, and `DISPOSED` if the store is closed.
 */
export class Watch implements AsyncIterableIterator<readonly Change[]>, Disposable {
  readonly #hub: WatchHub;
  readonly filter: ChangeFilter;
  readonly #signal: AbortSignal;
  /** All changes up to this version were handed out. */
  #cursor: bigint;
  /** All changes up to this version were handed out, and the reader has since requested more. */
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

  /** A version up to which the reader has received all changes, for a bookmark. It grows even if no change matches. */
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
    // The watch may begin at the version of a list that saw a commit before it was published here.
    const fresh = changes.filter((change) => change.object.resourceVersion > this.#cursor);
    const waiting = this.#waiting;
    if (fresh.length === 0 || waiting === undefined) return;
    this.#stopWaiting();
    if (before > this.#handled) this.#handled = before;
    this.#cursor = this.#hub.history.version;
    waiting.resolve({ done: false, value: fresh });
  }

  /** Called by the hub if there will be no more changes. */
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
  /** Only waiting watches, so that an abandoned one can be garbage-collected. */
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

  /** Ends all watches with an error. {@link checkOpen} throws the error of the first call from then on. */
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

  /** Selects the changes that match a filter once for all watches with the same filter. */
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
