/**
 * The store of the embedded Kubernetes API server: JSON texts under (resource, namespace, name), one version for all of
 * them that only grows, lists in pages at one version, and watches of changes.
 *
 * It knows nothing of HTTP, schemas or kinds.
 */
import type { DatabaseSync } from 'node:sqlite';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { withStorageErrors } from '../../sqlite/failure.ts';
import { type BatchWriter, InlineWriter, ThreadWriter } from './batch-writer.ts';
import { CommitQueue, type WriteResult } from './commit-queue.ts';
import { Compaction } from './compaction.ts';
import { DatabaseFiles } from './database-file.ts';
import { FutureVersionError } from './errors.ts';
import { History } from './history.ts';
import {
  listObjects,
  listPortions,
  listTexts,
  type List,
  type ListOptions,
  type ListSource,
  type PortionedList,
  type TextList,
  type TextListOptions,
} from './list.ts';
import { type FileLock, lockFile } from '../../sqlite/lock.ts';
import type { ObjectKey, Revision, StoredObject, VersionedText } from './object.ts';
import { Reader } from './reader.ts';
import { openDatabase } from './schema.ts';
import { checkOptions, type StoreCounters, type StoreOptions, type WatchOptions } from './store-options.ts';
import { type Watch, WatchHub } from './watch.ts';
import { checkWrite, refusal, revisionOf } from './write-checks.ts';
import type { Outcome, Write } from './writer.ts';

/**
 * Opens a store. The caller disposes it (`await using`), which waits for writes in progress.
 *
 * @throws {RampartError} `IN_USE` (another process has it), `UNSUPPORTED` (written by a newer release, or by
 *   another program), `CORRUPT`, `FULL`, `SYSTEM`, `INPUT` (an option).
 */
export function openStore(options: StoreOptions): Store {
  checkOptions(options);
  using stack = new DisposableStack();
  const lock = options.path === ':memory:' ? undefined : stack.use(lockFile(`${options.path}-lock`));
  const database = stack.adopt(openDatabase(options.path), (opened) => opened.close());
  const store = withStorageErrors(
    `cannot open the store ${options.path}`,
    () => new Store(options, database, lock),
  );
  stack.move();
  return store;
}

/** An open store; see {@link openStore}. */
export class Store implements AsyncDisposable {
  readonly path: string;
  readonly #database: DatabaseSync;
  readonly #lock: FileLock | undefined;
  readonly #reader: Reader;
  readonly #writer: BatchWriter;
  readonly #queue: CommitQueue;
  readonly #hub: WatchHub;
  readonly #compaction: Compaction;
  readonly #tokenKey: Uint8Array;
  readonly #counters = { writes: 0, commits: 0 };
  #closing: Promise<void> | undefined;

  /** Use {@link openStore}. */
  constructor(options: StoreOptions, database: DatabaseSync, lock: FileLock | undefined) {
    const { path, writer = path === ':memory:' ? 'inline' : 'thread' } = options;
    this.path = path;
    this.#database = database;
    this.#lock = lock;
    this.#reader = new Reader(database, path);
    const history = new History(this.#reader, {
      count: options.recentLimit ?? 8192,
      size: options.recentSize ?? 16 * 1024 * 1024,
    });
    this.#hub = new WatchHub(history);
    const { key } = database.prepare('SELECT token_key AS key FROM store').get() as { key: Uint8Array };
    this.#tokenKey = key;
    this.#writer =
      writer === 'inline'
        ? new InlineWriter(database, path === ':memory:' ? undefined : new DatabaseFiles(path))
        : // Nothing will be written any longer, so watchers would wait in vain.
          new ThreadWriter(path, (error) => this.#hub.close(error));
    this.#compaction = new Compaction({
      history,
      writer: this.#writer,
      historyLimit: options.historyLimit ?? 50_000,
      historyAgeMs: options.historyAgeMs ?? 600_000,
    });
    this.#queue = new CommitQueue({
      writer: this.#writer,
      maxWaitingSize: options.maxWaitingSize ?? 64 * 1024 * 1024,
      onCommitted: (writes, outcomes) => this.#committed(writes, outcomes),
    });
  }

  /** The version of the last acknowledged write. */
  get version(): bigint {
    return this.#hub.history.version;
  }

  /** The oldest version that can be listed or watched from. */
  get compactedVersion(): bigint {
    return this.#hub.history.compacted;
  }

  get counters(): StoreCounters {
    return { ...this.#counters, compactionFailures: this.#compaction.failures };
  }

  /**
   * The object; `undefined` if it does not exist.
   *
   * @throws {RampartError} `CORRUPT`, `SYSTEM`, `DISPOSED`
   */
  get(resource: string, namespace: string, name: string): StoredObject | undefined {
    this.#checkOpen();
    return this.#reader.get({ resource, namespace, name });
  }

  /**
   * Adds an object. When this resolves, it is on the disk. A write cannot be undone, so there is no
   * abort signal.
   *
   * @throws {AlreadyExistsError}
   * @throws {RampartError} `FULL`, `LIMIT` (too many writes wait), `INPUT` (an invalid key), `CORRUPT`, `DISPOSED`;
   *   `SYSTEM`, after which the object may or may not exist.
   */
  create(input: ObjectKey & { readonly uid: string; readonly text: VersionedText }): Promise<StoredObject> {
    const { uid, text } = input;
    return this.#write({ verb: 'create', ...keyOf(input), uid, ...halves(text) });
  }

  /**
   * Replaces an object that has the expected version.
   *
   * @throws {ConflictError} with the object's actual version
   * @throws {NotFoundError}
   * @throws {RampartError} as `create`
   */
  update(
    input: ObjectKey & { readonly expectedVersion: bigint; readonly text: VersionedText },
  ): Promise<StoredObject> {
    const { expectedVersion, text } = input;
    return this.#write({ verb: 'update', ...keyOf(input), expectedVersion, ...halves(text) });
  }

  /**
   * Removes an object; if `expectedVersion` is given, only at this version.
   *
   * @returns its last state, with the version of the deletion.
   * @throws {ConflictError} with the object's actual version
   * @throws {NotFoundError}
   * @throws {RampartError} as `create`
   */
  delete(input: ObjectKey & { readonly expectedVersion?: bigint | undefined }): Promise<StoredObject> {
    return this.#write({ verb: 'delete', ...keyOf(input), expectedVersion: input.expectedVersion });
  }

  /**
   * Lists objects, sorted by `namespace/name`, all at one version. Reads them all at once: use pages (`limit`) for large
   * collections.
   *
   * @throws {ExpiredError} if the version of the token, or the requested one, is compacted
   * @throws {FutureVersionError} @throws {MalformedTokenError}
   * @throws {RampartError} `INPUT` (an invalid limit), `CORRUPT`, `SYSTEM`, `DISPOSED`
   */
  list(resource: string, options: ListOptions = {}): List {
    return listObjects(this.#listSource(), resource, options);
  }

  /** Lists objects at one version, in portions, for a caller that keeps only some of them. @throws as `list` */
  listPortions(resource: string, options: Omit<ListOptions, 'limit'> = {}): PortionedList {
    return listPortions(() => this.#listSource(), resource, options);
  }

  /**
   * Lists the texts of all objects at one version, in parts that can be sent unchanged. It takes half the
   * time of `list`, and memory for one part instead of all.
   *
   * @throws as `list`
   */
  listTexts(resource: string, options: TextListOptions = {}): TextList {
    return listTexts(() => this.#listSource(), resource, options);
  }

  /**
   * Follows the changes after a version. The caller disposes the watch, or aborts its signal.
   *
   * @throws {ExpiredError} if that version is compacted; reading the watch throws it as well, see {@link Watch}
   * @throws {FutureVersionError}
   * @throws {RampartError} `DISPOSED`
   */
  watch(resource: string, { namespace, fromVersion, withPrevious = false, signal }: WatchOptions): Watch {
    this.#checkOpen();
    // The version may be from a list that has seen a commit before it was published.
    if (fromVersion > this.version) {
      const { version } = this.#reader.state();
      if (fromVersion > version) throw new FutureVersionError('watch from', fromVersion, version);
    }
    this.#hub.history.checkVersion('watch from', fromVersion);
    return this.#hub.watch({ resource, namespace, withPrevious }, fromVersion, signal);
  }

  /**
   * Compacts the history up to a version (default: the present one) now, in addition to the compaction by number and age.
   *
   * @throws {RampartError} `FULL`, `CORRUPT`, `SYSTEM`, `DISPOSED`
   */
  async compact(upTo: bigint = this.version): Promise<void> {
    this.#checkOpen();
    await this.#compaction.compactTo(upTo < this.version ? upTo : this.version);
  }

  /** Waits for accepted writes, ends the watches, and releases the files. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    try {
      await this.#queue.drained();
      this.#hub.close(this.#disposedError());
      await this.#compaction[Symbol.asyncDispose]();
      await this.#writer.close();
    } finally {
      this.#database.close();
      this.#lock?.[Symbol.dispose]();
    }
  }

  async #write(write: Write): Promise<StoredObject> {
    this.#checkOpen();
    checkWrite(write);
    return this.#queue.submit(write);
  }

  /** Called when a batch is on the disk: notifies the watches, then gives each write its result. */
  #committed(writes: readonly Write[], outcomes: readonly Outcome[]): readonly WriteResult[] {
    const revisions = writes.map((write, index) => {
      const outcome = outcomes[index];
      return outcome?.done === true ? revisionOf(write, outcome) : undefined;
    });
    const done = revisions.filter((revision) => revision !== undefined);
    this.#counters.writes += done.length;
    if (done.length > 0) this.#counters.commits++;
    this.#hub.publish(done);
    const results = writes.map((write, index) => this.#result(write, outcomes[index], revisions[index]));
    // After the results were made, because compaction may remove the last state of deleted objects.
    this.#compaction.committed();
    return results;
  }

  #result(write: Write, outcome: Outcome | undefined, revision: Revision | undefined): WriteResult {
    if (outcome?.done === false) return { error: refusal(write, outcome) };
    try {
      if (revision === undefined) throw new TypeError('a write without an outcome');
      return { object: revision.object ?? this.#hub.history.changeOf(revision, false).object };
    } catch (error) {
      return { error };
    }
  }

  #listSource(): ListSource {
    this.#checkOpen();
    return { reader: this.#reader, tokenKey: this.#tokenKey, compacted: this.compactedVersion };
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw this.#disposedError();
  }

  #disposedError(): RampartError {
    return new RampartError(errorCodes.DISPOSED, { what: `the store ${this.path} is closed` });
  }
}

function keyOf({ resource, namespace, name }: ObjectKey): ObjectKey {
  return { resource, namespace, name };
}

function halves({ before, after }: VersionedText): VersionedText {
  return { before, after };
}
