/**
 * The tables of the store, and how a database is opened.
 *
 * - `revisions` holds every change that is still kept, one row per version. A row with a text is the object's state from that
 *   version on; one without is a deletion. `previous` is the version of the object that the change replaced, 0 for a
 *   creation. Rows are added and removed, never changed.
 * - `objects` holds the version of each object's present revision, in the order of lists.
 * - `store` is one row: the version, so that it never decreases whatever is deleted; the version up to which the history is
 *   compacted; and the key that signs continue tokens.
 *
 * The state at an earlier version V consists of the objects that were last written at V or before and, for each object that
 * changed later, the revision that its first change after V replaced: only that change has a `previous` from 1 to V.
 */
import { randomBytes } from 'node:crypto';
import { DatabaseSync } from 'node:sqlite';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { withStorageErrors } from '../../sqlite/failure.ts';
import { prepareDatabaseFile } from './database-file.ts';

/** "RKAS": what `file` and SQLite find in the header of the file (sqlite.org/fileformat2.html#application_id). */
const applicationId = 0x524b4153;

/**
 * The step at index N upgrades a database from `user_version` N to N + 1, so their number is the `user_version` of this
 * release. A released step is never changed: add another one.
 *
 * The store's version begins at 1: an empty list needs a version to watch from, and "0" means "any" to Kubernetes clients.
 */
export const migrations: readonly string[] = [
  `CREATE TABLE store (
     id INTEGER PRIMARY KEY CHECK (id = 1),
     version INTEGER NOT NULL,
     compacted INTEGER NOT NULL,
     token_key BLOB NOT NULL
   ) STRICT;
   CREATE TABLE objects (
     resource TEXT NOT NULL,
     namespace TEXT NOT NULL,
     name TEXT NOT NULL,
     version INTEGER NOT NULL,
     uid TEXT NOT NULL,
     PRIMARY KEY (resource, namespace, name)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE revisions (
     version INTEGER PRIMARY KEY,
     previous INTEGER NOT NULL,
     resource TEXT NOT NULL,
     namespace TEXT NOT NULL,
     name TEXT NOT NULL,
     uid TEXT NOT NULL,
     version_at INTEGER NOT NULL,
     text TEXT
   ) STRICT;
   CREATE INDEX revisions_of_resource ON revisions (resource, version);
   INSERT INTO store VALUES (1, 1, 1, x'${'00'.repeat(32)}');`,
  // Lists of all namespaces are in the order of these keys. Continue tokens for the earlier order become invalid.
  `CREATE INDEX objects_by_key ON objects (resource, namespace || '/' || name);
   UPDATE store SET token_key = randomblob(32);`,
];

/**
 * Opens the database and upgrades its tables to this release, all or nothing. The caller makes sure that no other
 * process has it open, and closes it.
 *
 * @throws {RampartError} `UNSUPPORTED`: a newer release wrote it, or it is not the store's; `CORRUPT`; `FULL`;
 *   `SYSTEM`, such as a directory that does not exist.
 */
export function openDatabase(path: string, steps: readonly string[] = migrations): DatabaseSync {
  const what = `cannot open the store ${path}`;
  if (path !== ':memory:') prepareDatabaseFile(path, what);
  return withStorageErrors(what, () => {
    const database = connect(path);
    try {
      migrate(database, steps, what);
      return database;
    } catch (error) {
      database.close();
      throw error;
    }
  });
}

/** Another connection to a database that `openDatabase` has opened. The caller closes it. */
export function connect(path: string): DatabaseSync {
  // A commit of one thread may block the other while it writes to the wal-index: microseconds.
  const database = new DatabaseSync(path, { timeout: 10_000 });
  try {
    // synchronous=FULL: a commit returns when its part of the log is on the disk (sqlite.org/pragma.html#pragma_synchronous).
    // There is a checkpoint every 16 MiB of log, not every 4 MiB, since each one waits for the disk twice. After a large
    // transaction, the log is truncated to 64 MiB.
    database.exec(`
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = FULL;
      PRAGMA wal_autocheckpoint = 4000;
      PRAGMA journal_size_limit = ${64 * 1024 * 1024};
      PRAGMA trusted_schema = OFF;
    `);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

function migrate(database: DatabaseSync, steps: readonly string[], what: string): void {
  database.exec('BEGIN IMMEDIATE');
  try {
    const found = pragma(database, 'user_version');
    checkOwner(database, found, what);
    if (found > steps.length) {
      throw new RampartError(errorCodes.UNSUPPORTED, {
        what,
        why: `its format is ${found}, written by a newer release; this one supports formats up to ${steps.length}`,
        next: 'Use that release, or another directory for this one',
      });
    }
    for (const step of steps.slice(found)) database.exec(step);
    if (found === 0) {
      database.prepare('UPDATE store SET token_key = ?').run(randomBytes(32));
      database.exec(`PRAGMA application_id = ${applicationId}`);
    }
    if (found < steps.length) database.exec(`PRAGMA user_version = ${steps.length}`);
    database.exec('COMMIT');
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK');
    throw error;
  }
}

function checkOwner(database: DatabaseSync, userVersion: number, what: string): void {
  const owner = pragma(database, 'application_id');
  const { tables } = database.prepare('SELECT count(*) AS tables FROM sqlite_schema').get() as {
    tables: number;
  };
  if (owner === applicationId || (owner === 0 && userVersion === 0 && tables === 0)) return;
  throw new RampartError(errorCodes.UNSUPPORTED, {
    what,
    why: 'it belongs to another program',
    next: 'Give a separate directory',
  });
}

function pragma(database: DatabaseSync, name: 'user_version' | 'application_id'): number {
  const row = database.prepare(`PRAGMA ${name}`).get() as Record<string, number> | undefined;
  return row?.[name] ?? 0;
}
