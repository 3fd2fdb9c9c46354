/** One process at a time: a lock that ends with its holder, however that ends. */
import { closeSync, openSync, readFileSync, statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

import { errorCodes, RampartError } from '../errors/errors.ts';
import { primaryCode, sqliteCodes, sqliteFailure, storageError } from './failure.ts';

/** A lock held until it is disposed, or the process ends. */
export interface FileLock extends Disposable {
  readonly path: string;
}

/**
 * Takes a lock. Its file is empty, and stays. Node.js has no call for locks of the
 * operating system, but SQLite takes one (fcntl(2), which the kernel drops with the process) for as long as an
 * exclusive transaction is open.
 *
 * @throws {RampartError} `IN_USE` when another process, or this one, holds it; `SYSTEM`.
 */
export function lockFile(path: string): FileLock {
  const what = `cannot lock ${path}`;
  let database: DatabaseSync | undefined;
  makePrivateFile(path);
  try {
    // Without a journal nothing is written, so the lock can be taken on a full disk. While `defensive` is on, which is Node's default,
    // SQLite keeps the journal and reports no error (sqlite.org/c3ref/c_dbconfig_defensive.html).
    database = new DatabaseSync(path, { timeout: 0, defensive: false });
    database.exec('PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE');
  } catch (error) {
    database?.close();
    const failure = sqliteFailure(error);
    if (primaryCode(failure) !== sqliteCodes.BUSY) throw storageError(what, failure, error);
    throw new RampartError(errorCodes.IN_USE, {
      what,
      why: `${holder(path)} holds it`,
      next: 'Stop that process, or use another directory',
      cause: error,
    });
  }
  const held = database;
  return {
    path,
    [Symbol.dispose]: () => {
      if (held.isOpen) held.close();
    },
  };
}

/** For its owner only: any user who may read the file could hold the lock. */
function makePrivateFile(path: string): void {
  try {
    // Never opens an existing file: closing it would drop the lock that this process may hold (fcntl(2)).
    closeSync(openSync(path, 'wx', 0o600));
  } catch {
    // The file exists, or cannot be created: then SQLite says why.
  }
}

/** Who holds the lock, by /proc/locks (proc_locks(5)): `1: POSIX ADVISORY WRITE 4711 fe:00:123 0 EOF`. */
function holder(path: string): string {
  try {
    const { ino } = statSync(path, { bigint: true });
    for (const line of readFileSync('/proc/locks', 'utf8').split('\n')) {
      const [, , , access, pid, file] = line.trim().split(/\s+/);
      if (access === 'WRITE' && file?.endsWith(`:${ino}`) && Number(pid) > 0) return `process ${pid}`;
    }
  } catch {
    // /proc/locks or the lock's file cannot be read: the message does not name the holder.
  }
  return 'another process';
}
