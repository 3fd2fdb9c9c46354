import type { DatabaseSync, StatementSync } from 'node:sqlite';

import { primaryCode, sqliteCodes, sqliteFailure, type SqliteFailure } from '../../sqlite/failure.ts';
import type { DatabaseFiles } from './database-file.ts';
import type { ObjectKey, VersionedText } from './object.ts';

/** One write, as plain data, because the writer may be on another thread. */
export type Write = ObjectKey &
  (
    | ({ readonly verb: 'create'; readonly uid: string } & VersionedText)
    | ({ readonly verb: 'update' } & Expected & VersionedText)
    | ({ readonly verb: 'delete' } & Expected)
  );

/** The version that the object must have; `undefined` for any version. */
interface Expected {
  readonly expectedVersion: bigint | undefined;
}

export type Outcome =
  /** Committed to the disk. `previous` is the version that was replaced, 0 for a creation. */
  | { readonly done: true; readonly version: bigint; readonly uid: string; readonly previous: bigint }
  | { readonly done: false; readonly why: 'exists' }
  | { readonly done: false; readonly why: 'missing' }
  | { readonly done: false; readonly why: 'conflict'; readonly expected: bigint; readonly version: bigint }
  | { readonly done: false; readonly why: 'failed'; readonly failure: SqliteFailure };

/** Limit of versions whose changes one transaction removes from the history: some 10 ms, for which other writes wait. */
const compactionStep = 1000n;

/** Applies writes to a database, which the caller closes. No other connection may write to it. */
export class Writer {
  readonly #database: DatabaseSync;
  readonly #files: DatabaseFiles | undefined;
  readonly #find: StatementSync;
  readonly #addObject: StatementSync;
  readonly #moveObject: StatementSync;
  readonly #removeObject: StatementSync;
  readonly #addRevision: StatementSync;
  readonly #version: StatementSync;
  readonly #setVersion: StatementSync;
  readonly #compacted: StatementSync;
  readonly #removeReplaced: StatementSync;
  readonly #removeDeletions: StatementSync;
  readonly #setCompacted: StatementSync;

  /** @param files of the database, unless it is in memory. */
  constructor(database: DatabaseSync, files?: DatabaseFiles) {
    const prepare = (sql: string): StatementSync => {
      const statement = database.prepare(sql);
      statement.setReadBigInts(true);
      return statement;
    };
    const where = 'WHERE resource = ? AND namespace = ? AND name = ?';
    this.#database = database;
    this.#files = files;
    this.#find = prepare(`SELECT version, uid FROM objects ${where}`);
    this.#addObject = prepare('INSERT INTO objects VALUES (?, ?, ?, ?, ?)');
    this.#moveObject = prepare(`UPDATE objects SET version = ? ${where}`);
    this.#removeObject = prepare(`DELETE FROM objects ${where}`);
    this.#addRevision = prepare('INSERT INTO revisions VALUES (?, ?, ?, ?, ?, ?, ?, ?)');
    this.#version = prepare('SELECT version AS value FROM store');
    this.#setVersion = prepare('UPDATE store SET version = ?');
    this.#compacted = prepare('SELECT compacted AS value FROM store');
    this.#removeReplaced = prepare(
      'DELETE FROM revisions WHERE version IN (SELECT previous FROM revisions WHERE version > ? AND version <= ?)',
    );
    this.#removeDeletions = prepare(
      'DELETE FROM revisions WHERE version > ? AND version <= ? AND text IS NULL',
    );
    this.#setCompacted = prepare('UPDATE store SET compacted = ?');
  }

  /**
   * Applies writes in order, in one transaction; each sees the previous ones. When this returns, the writes that are `done`
   * are on the disk and visible to other connections, and the others have no effect.
   *
   * A failing write does not affect the others: SQLite may have rolled back the whole transaction
   * (sqlite.org/lang_transaction.html), so it is repeated in halves until each failing write is alone.
   */
  apply(writes: readonly Write[]): Outcome[] {
    // Checked again after the commit: only that shows that the commit went into the right files.
    const outcomes = this.#files?.lost() === undefined ? this.#applyInHalves(writes) : [];
    const failure = this.#files?.lost();
    return failure === undefined ? outcomes : writes.map(() => ({ done: false, why: 'failed', failure }));
  }

  #applyInHalves(writes: readonly Write[]): Outcome[] {
    try {
      return this.#transaction(() => this.#applyAll(writes));
    } catch (error) {
      const failure = sqliteFailure(error);
      if (writes.length <= 1) return writes.map(() => ({ done: false, why: 'failed', failure }));
      if (primaryCode(failure) === sqliteCodes.FULL) this.#freeLog();
      const middle = Math.ceil(writes.length / 2);
      return [...this.#applyInHalves(writes.slice(0, middle)), ...this.#applyInHalves(writes.slice(middle))];
    }
  }

  /**
   * Removes a part of the history up to version `to`: what was replaced or deleted by then. Call it again until it
   * returns `to`.
   *
   * @returns the version up to which the history is now compacted.
   * @throws what `node:sqlite` throws; then nothing has changed.
   */
  compact(to: bigint): bigint {
    return this.#transaction(() => {
      const from = value(this.#compacted);
      if (from >= to) return to;
      const until = from + compactionStep < to ? from + compactionStep : to;
      this.#removeReplaced.run(from, until);
      this.#removeDeletions.run(from, until);
      this.#setCompacted.run(until);
      return until;
    });
  }

  #applyAll(writes: readonly Write[]): Outcome[] {
    const before = value(this.#version);
    let version = before;
    const outcomes = writes.map((write) => {
      const outcome = this.#applyOne(write, version + 1n);
      if (outcome.done) version = outcome.version;
      return outcome;
    });
    if (version !== before) this.#setVersion.run(version);
    return outcomes;
  }

  #applyOne(write: Write, version: bigint): Outcome {
    const { resource, namespace, name } = write;
    const found = this.#find.get(resource, namespace, name) as { version: bigint; uid: string } | undefined;
    if (write.verb === 'create') {
      if (found !== undefined) return { done: false, why: 'exists' };
      this.#addObject.run(resource, namespace, name, version, write.uid);
      this.#addRevisionOf(write, write.uid, 0n, version);
      return { done: true, version, uid: write.uid, previous: 0n };
    }
    if (found === undefined) return { done: false, why: 'missing' };
    const { expectedVersion: expected = found.version } = write;
    if (expected !== found.version) {
      return { done: false, why: 'conflict', expected, version: found.version };
    }
    if (write.verb === 'update') this.#moveObject.run(version, resource, namespace, name);
    else this.#removeObject.run(resource, namespace, name);
    this.#addRevisionOf(write, found.uid, found.version, version);
    return { done: true, version, uid: found.uid, previous: found.version };
  }

  #addRevisionOf(write: Write, uid: string, previous: bigint, version: bigint): void {
    const { resource, namespace, name } = write;
    // A deletion has no text: readers take that of the previous version, which is kept as long.
    const text = write.verb === 'delete' ? null : `${write.before}${version}${write.after}`;
    const versionAt = write.verb === 'delete' ? 0 : write.before.length;
    this.#addRevision.run(version, previous, resource, namespace, name, uid, versionAt, text);
  }

  #transaction<T>(work: () => T): T {
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      const result = work();
      this.#database.exec('COMMIT');
      return result;
    } catch (error) {
      // After some failures, such as a full disk, SQLite has already rolled back.
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw error;
    }
  }

  /** Truncates the log: it may take most of the disk, and its pages may already have space in the database. */
  #freeLog(): void {
    try {
      this.#database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    } catch {
      // The next write reports that the disk is full.
    }
  }
}

function value(statement: StatementSync): bigint {
  return (statement.get() as { value: bigint }).value;
}
