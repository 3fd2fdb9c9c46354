/** Failures of a disk or a database: turns SQLite's codes into those of the catalogue of errors. */
import { type ErrorCode, errorCodes, RampartError } from '../errors/errors.ts';

/** SQLite's description of a failure, in a form that passes between threads. */
export interface SqliteFailure {
  /** Extended result code (sqlite.org/rescode.html); `undefined` if the error is not SQLite's. */
  readonly resultCode: number | undefined;
  readonly message: string;
}

/** Reads a failure from what `node:sqlite` throws: an Error with `errcode`. */
export function sqliteFailure(error: unknown): SqliteFailure {
  const resultCode = error instanceof Error && 'errcode' in error ? error.errcode : undefined;
  return {
    resultCode: typeof resultCode === 'number' ? resultCode : undefined,
    message: error instanceof Error ? error.message : String(error),
  };
}

/** The primary result code: the low byte of the extended one. */
export function primaryCode({ resultCode }: SqliteFailure): number | undefined {
  return resultCode === undefined ? undefined : resultCode & 0xff;
}

/** The result codes that this product distinguishes (sqlite.org/rescode.html). */
export const sqliteCodes = {
  BUSY: 5,
  READONLY: 8,
  IOERR: 10,
  CORRUPT: 11,
  FULL: 13,
  CANTOPEN: 14,
  NOTADB: 26,
  /** Extended: `-shm` could not be made larger, which on Linux means a full disk (os_unix.c, unixShmMap). */
  IOERR_SHMSIZE: 4874,
  /** Extended: the files are not those that were opened. Also used by `DatabaseFiles`. */
  READONLY_DBMOVED: 1032,
};

const damaged: readonly [ErrorCode, string] = [
  errorCodes.CORRUPT,
  'Stop this server and restore a backup of the database, or move it aside to start with an empty one',
];
const full: readonly [ErrorCode, string] = [
  errorCodes.FULL,
  'Free space on that file system; no restart is needed',
];
/** What codes mean, keyed by extended result code if that has a meaning of its own, else by the primary one. */
const meanings: Readonly<Record<number, readonly [ErrorCode, string]>> = {
  [sqliteCodes.CORRUPT]: damaged,
  [sqliteCodes.NOTADB]: damaged,
  [sqliteCodes.FULL]: full,
  [sqliteCodes.IOERR_SHMSIZE]: full,
  [sqliteCodes.READONLY_DBMOVED]: [
    errorCodes.SYSTEM,
    'Do not touch the files of an open store. Stop this server and restore a backup, or start with an empty store',
  ],
  [sqliteCodes.READONLY]: [errorCodes.SYSTEM, 'The database and its directory must be writable'],
  [sqliteCodes.CANTOPEN]: [errorCodes.SYSTEM, 'The directory must exist and be writable'],
};

/** `FULL` (no space), `CORRUPT` (damaged, or no database) or `SYSTEM` (all else). */
export function storageError(what: string, failure: SqliteFailure, cause?: unknown): RampartError {
  const [code, next] = meanings[failure.resultCode ?? -1] ??
    meanings[primaryCode(failure) ?? -1] ?? [errorCodes.SYSTEM, undefined];
  return new RampartError(code, {
    what,
    why: failure.message,
    next,
    cause,
  });
}

/** Runs `work` and turns what SQLite throws into an error of the catalogue. */
export function withStorageErrors<T>(what: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof RampartError) throw error;
    throw storageError(what, sqliteFailure(error), error);
  }
}
