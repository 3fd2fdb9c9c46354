/**
 * The tables of the store, and how a database is opened.
 *
 * - `revisions` holds every change still kept, one row a version. A row with a text is an object from that
 *   version on; one without is a deletion. `previous` is the version that the change replaced, 0 for a
 *   creation. Rows are added and removed, never changed.
 * - `objects` says which revision of each object is the present one, in the order of lists.
 * - `store` is one row: the version, which so never goes backwards whatever is deleted; the version up to
 *   which the history is compacted; and the key that signs continue tokens.
 *
 * The state at an earlier version V is: the objects that were last written at V or before, and for each
 * object changed since, the revision that its first change after V replaced, that is the `previous` that is
 * at most V.
 */
import { randomBytes } from 'node:crypto';
import { DatabaseSync } from 'node:sqlite';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { withStorageErrors } from '../../sqlite/failure.ts';
import { prepareDatabaseFile } from './database-file.ts';

/** "RKAS": what `file` and SQLite find in the header of the file (sqlite.org/fileformat2.html#application_id). */
const applicationId = 0x524b4153;

/**
 * Each takes the database from the version that is its index to the next. The number of them is the
 * `user_version` of this release. One that was released is never changed: add another.
 *
 * The version begins at 1: an empty list must have a version to watch from, and "0" means "any" to clients of
 * Kubernetes.
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
  // Lists of all namespaces are in the order of these keys. Tokens of lists in another order hold no longer.
  `CREATE INDEX objects_by_key ON objects (resource, namespace || '/' || name);
   UPDATE store SET token_key = randomblob(32);`,
];

/**
 * Opens the database and brings its tables to this release, all or nothing. The caller has made sure that no
 * other process does, and closes what is returned.
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
  // A commit of one thread may hold up the other for as long as it writes to the wal-index: microseconds.
  const database = new DatabaseSync(path, { timeout: 10_000 });
  try {
    // FULL: a commit returns when its part of the log is on the disk (sqlite.org/pragma.html#pragma_synchronous).
    // A checkpoint every 16 MiB of log, not 4, as each waits for the disk twice; after a large transaction
    // the log is cut to 64 MiB again.
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
