/**
 * Detects that the files of a database were replaced or deleted. SQLite does not: it deletes the log of an empty
 * database, and keeps writing to deleted files, whose content is lost when the process ends. Either would be a
 * silent loss.
 */
import { closeSync, constants, openSync, statSync } from 'node:fs';

import { errorCodes, messageOf, RampartError } from '../../errors/errors.ts';
import { type SqliteFailure, sqliteCodes } from '../../sqlite/failure.ts';

/**
 * Creates the file if it is missing, accessible to its owner only, since it may hold Secrets. SQLite gives its other files
 * the same mode, and syncs the directory when it syncs the first page of each (os_unix.c, unixSync), so that the files of
 * a new store survive a power loss once its first write is acknowledged.
 *
 * @throws {RampartError} `CORRUPT` if there is a log without its database; `SYSTEM`.
 */
export function prepareDatabaseFile(path: string, what: string): void {
  // The database's first page is on the disk before the log is created, so no kill or power loss leaves a log without its
  // database. SQLite would delete such a log (pager.c, pagerOpenWalIfPresent).
  const log = sizeOf(`${path}-wal`);
  if (log > 0 && sizeOf(path) === 0) {
    throw new RampartError(errorCodes.CORRUPT, {
      what,
      why: `the database is missing or empty, but its log ${path}-wal has ${log} bytes`,
      next: 'Restore the database, or remove the log as well to start with an empty one',
    });
  }
  try {
    closeSync(openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600));
  } catch (error) {
    throw new RampartError(errorCodes.SYSTEM, {
      what,
      why: messageOf(error),
      next: 'The directory must exist and be writable',
      cause: error,
    });
  }
}

/** Detects that the names of an open database's files no longer lead to these files. */
export class DatabaseFiles {
  readonly #known: readonly { readonly path: string; readonly inode: string | undefined }[];
  #lost: SqliteFailure | undefined;

  /** @param path - Of an open database whose log exists. */
  constructor(path: string) {
    this.#known = [path, `${path}-wal`].map((file) => ({ path: file, inode: inodeOf(file) }));
  }

  /**
   * Why further writes would be lost; `undefined` as long as the files are in place. Costs two calls of stat(2), some
   * microseconds. Lost files stay lost, even if other files get their names.
   */
  lost(): SqliteFailure | undefined {
    const gone = this.#lost ?? this.#known.find(({ path, inode }) => inodeOf(path) !== inode);
    if (gone !== undefined && 'path' in gone) {
      this.#lost = {
        resultCode: sqliteCodes.READONLY_DBMOVED,
        message: `${gone.path} was removed or replaced`,
      };
    }
    return this.#lost;
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

function inodeOf(path: string): string | undefined {
  const stat = statSync(path, { throwIfNoEntry: false, bigint: true });
  return stat === undefined ? undefined : `${stat.dev}:${stat.ino}`;
}
