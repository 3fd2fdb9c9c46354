/**
 * The errors of the store. What a caller answers differently has a class of its own; what is wrong with
 * the disk or the database is a RampartError whose code says it.
 *
 * @module
 */
import { type ErrorCode, errorCodes, RampartError } from '../../observe/errors.ts';
import { describeKey, type ObjectKey } from './object.ts';

/** `create`: there is an object under this key. */
export class AlreadyExistsError extends RampartError {
  readonly key: ObjectKey;
  /** The version of the object that is there. */
  readonly actualVersion: bigint;

  constructor(key: ObjectKey, actualVersion: bigint) {
    super(errorCodes.EXISTS, { what: `cannot create ${describeKey(key)}`, why: 'it exists already' });
    this.name = 'AlreadyExistsError';
    this.key = key;
    this.actualVersion = actualVersion;
  }
}

/** `update`, `delete`: there is no object under this key. */
export class NotFoundError extends RampartError {
  readonly key: ObjectKey;

  constructor(what: string, key: ObjectKey) {
    super(errorCodes.NOT_FOUND, { what: `cannot ${what} ${describeKey(key)}`, why: 'it does not exist' });
    this.name = 'NotFoundError';
    this.key = key;
  }
}

/** `update`, `delete`: the object is not the one, or not at the version, that was expected. */
export class ConflictError extends RampartError {
  readonly key: ObjectKey;
  /** `undefined` when no version was expected. */
  readonly expectedVersion: bigint | undefined;
  readonly actualVersion: bigint;
  /** `undefined` when no uid was expected. */
  readonly expectedUid: string | undefined;
  readonly actualUid: string;

  constructor(
    what: string,
    key: ObjectKey,
    expected: { readonly version: bigint | undefined; readonly uid: string | undefined },
    actual: { readonly version: bigint; readonly uid: string },
  ) {
    const why =
      expected.uid === undefined || expected.uid === actual.uid
        ? `it is at version ${actual.version}, not ${expected.version}`
        : `it is another object of that name: its uid is ${actual.uid}, not ${expected.uid}`;
    super(errorCodes.CONFLICT, { what: `cannot ${what} ${describeKey(key)}`, why, next: 'Read it again' });
    this.name = 'ConflictError';
    this.key = key;
    this.expectedVersion = expected.version;
    this.actualVersion = actual.version;
    this.expectedUid = expected.uid;
    this.actualUid = actual.uid;
  }
}

/** `list`, `watch`: what is needed of the history has been compacted (HTTP 410). */
export class ExpiredError extends RampartError {
  readonly version: bigint;
  /** The oldest version that can still be asked for. */
  readonly compactedVersion: bigint;
  /** For a list in pages: goes on after the same key, at the newest version instead. */
  readonly newestToken: string | undefined;

  constructor(what: string, version: bigint, compactedVersion: bigint, newestToken?: string) {
    super(errorCodes.EXPIRED, {
      what: `cannot ${what} version ${version}`,
      why: `the history before version ${compactedVersion} is compacted`,
      next: 'List again',
    });
    this.name = 'ExpiredError';
    this.version = version;
    this.compactedVersion = compactedVersion;
    this.newestToken = newestToken;
  }
}

/** `list`, `watch`: a version was asked for that the store has not reached. */
export class FutureVersionError extends RampartError {
  readonly version: bigint;
  readonly currentVersion: bigint;

  constructor(what: string, version: bigint, currentVersion: bigint) {
    super(errorCodes.INPUT, {
      what: `cannot ${what} version ${version}`,
      why: `the store is at version ${currentVersion}`,
      next: 'The version is of another store, or of one that was restored: list again',
    });
    this.name = 'FutureVersionError';
    this.version = version;
    this.currentVersion = currentVersion;
  }
}

/** `list`: the continue token is not one of this store, or of another list. */
export class MalformedTokenError extends RampartError {
  constructor(why: string) {
    super(errorCodes.INPUT, {
      what: 'cannot continue the list',
      why,
      next: 'Give the token as it was received, or list from the beginning',
    });
    this.name = 'MalformedTokenError';
  }
}

/** What SQLite says about a failure, in a form that passes between threads. */
export interface SqliteFailure {
  /** Extended result code (sqlite.org/rescode.html); `undefined` where the error is not SQLite's. */
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

/** Result codes that mean something to the reader (sqlite.org/rescode.html). */
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
  'Stop this server and put back a backup of the database, or move it aside to start with an empty one',
];
const full: readonly [ErrorCode, string] = [
  errorCodes.FULL,
  'Free space on that file system; no restart is needed',
];
/** By result code: an extended one where it means something of its own, else the primary one. */
const meanings: Readonly<Record<number, readonly [ErrorCode, string]>> = {
  [sqliteCodes.CORRUPT]: damaged,
  [sqliteCodes.NOTADB]: damaged,
  [sqliteCodes.FULL]: full,
  [sqliteCodes.IOERR_SHMSIZE]: full,
  [sqliteCodes.READONLY_DBMOVED]: [
    errorCodes.SYSTEM,
    'Leave the files of an open store alone. Stop this server and put back a backup, or start with an empty store',
  ],
  [sqliteCodes.READONLY]: [errorCodes.SYSTEM, 'The database and its directory must be writable'],
  [sqliteCodes.CANTOPEN]: [errorCodes.SYSTEM, 'The directory must exist and be writable'],
};

/**
 * A failure of SQLite as an error of the catalogue: `FULL` (no space), `CORRUPT` (damaged, or no database),
 * `SYSTEM` (all else).
 */
export function storageError(what: string, failure: SqliteFailure, cause?: unknown): RampartError {
  const [code, next] = meanings[failure.resultCode ?? -1] ??
    meanings[primaryCode(failure) ?? -1] ?? [errorCodes.SYSTEM, undefined];
  return new RampartError(code, {
    what,
    why: failure.message,
    ...(next === undefined ? {} : { next }),
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
