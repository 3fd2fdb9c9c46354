/**
 * The errors of the store. Those that callers handle differently have their own classes. Failures of the disk or the
 * database are in `lib/sqlite/failure.ts`.
 */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import { describeKey, type ObjectKey } from './object.ts';

/** `create`: there is an object under this key. */
export class AlreadyExistsError extends RampartError {
  constructor(key: ObjectKey) {
    super(errorCodes.EXISTS, { what: `cannot create ${describeKey(key)}`, why: 'it already exists' });
    this.name = 'AlreadyExistsError';
  }
}

/** `update`, `delete`: there is no object under this key. */
export class NotFoundError extends RampartError {
  constructor(what: string, key: ObjectKey) {
    super(errorCodes.NOT_FOUND, { what: `cannot ${what} ${describeKey(key)}`, why: 'it does not exist' });
    this.name = 'NotFoundError';
  }
}

/** `update`, `delete`: the object does not have the expected version. */
export class ConflictError extends RampartError {
  constructor(what: string, key: ObjectKey, expected: bigint, actual: bigint) {
    const why = `it is at version ${actual}, not ${expected}`;
    super(errorCodes.CONFLICT, { what: `cannot ${what} ${describeKey(key)}`, why, next: 'Read it again' });
    this.name = 'ConflictError';
  }
}

/** `list`, `watch`: the needed part of the history has been compacted (HTTP 410). */
export class ExpiredError extends RampartError {
  readonly version: bigint;
  /** The oldest version that can still be read. */
  readonly compactedVersion: bigint;
  /** For a list in pages: a token that continues after the same key, but at the newest version. */
  readonly newestToken: string | undefined;

  constructor(what: string, version: bigint, compactedVersion: bigint, newestToken?: string) {
    super(errorCodes.EXPIRED, {
      what: `cannot ${what} version ${version}`,
      why: `the history before version ${compactedVersion} has been compacted`,
      next: 'List again',
    });
    this.name = 'ExpiredError';
    this.version = version;
    this.compactedVersion = compactedVersion;
    this.newestToken = newestToken;
  }
}

/** `list`, `watch`: the requested version has not been reached. */
export class FutureVersionError extends RampartError {
  readonly version: bigint;
  readonly currentVersion: bigint;

  constructor(what: string, version: bigint, currentVersion: bigint) {
    super(errorCodes.INPUT, {
      what: `cannot ${what} version ${version}`,
      why: `the store is at version ${currentVersion}`,
      next: 'The version is from another store or from before a restore: list again',
    });
    this.name = 'FutureVersionError';
    this.version = version;
    this.currentVersion = currentVersion;
  }
}

/** `list`: the continue token is not from this store, or belongs to another list. */
export class MalformedTokenError extends RampartError {
  constructor(why: string) {
    super(errorCodes.INPUT, {
      what: 'cannot continue the list',
      why,
      next: 'Pass the token exactly as received, or list from the beginning',
    });
    this.name = 'MalformedTokenError';
  }
}
