/** Checks writes before they are accepted, and turns their outcomes into errors for the caller. */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import { storageError } from '../../sqlite/failure.ts';
import { AlreadyExistsError, ConflictError, NotFoundError } from './errors.ts';
import { describeKey, type Revision } from './object.ts';
import type { Outcome, Write } from './writer.ts';

/**
 * @throws {RampartError} `INPUT` for a key or text that the database would not return unchanged: half a surrogate pair
 *   has no UTF-8, and some functions of SQLite end a text at a zero character.
 */
export function checkWrite(write: Write): void {
  const { resource, namespace, name } = write;
  const whole = (text: string): boolean => text.isWellFormed() && !text.includes('\0');
  if (resource === '' || name === '' || ![resource, namespace, name].every(whole)) {
    throw inputError(write, 'its resource, namespace or name is malformed');
  }
  if (write.verb === 'delete') return;
  if (!whole(write.before) || !whole(write.after)) throw inputError(write, 'its text is not JSON');
}

function inputError(write: Write, why: string): RampartError {
  return new RampartError(errorCodes.INPUT, { what: `cannot ${write.verb} ${describeKey(write)}`, why });
}

export function refusal(write: Write, outcome: Outcome & { readonly done: false }): RampartError {
  const { resource, namespace, name } = write;
  const key = { resource, namespace, name };
  switch (outcome.why) {
    case 'exists':
      return new AlreadyExistsError(key);
    case 'missing':
      return new NotFoundError(write.verb, key);
    case 'conflict':
      return new ConflictError(write.verb, key, outcome.expected, outcome.version);
    case 'failed':
      return storageError(`cannot ${write.verb} ${describeKey(write)}`, outcome.failure);
  }
}

export function revisionOf(
  write: Write,
  { version, previous, uid }: Outcome & { readonly done: true },
): Revision {
  const { resource, namespace, name } = write;
  const key = { resource, namespace, name };
  const object =
    write.verb === 'delete'
      ? undefined
      : {
          ...key,
          uid,
          resourceVersion: version,
          text: `${write.before}${version}${write.after}`,
          versionAt: write.before.length,
        };
  return { ...key, version, previous, uid, object };
}
