/**
 * A signed note that says which baseline is the latest. Older ones are signed too: without the note, restoring one
 * would hide later changes. The note is next to the baseline and signed with the same key. Two files cannot be replaced
 * atomically, so the note announces a new baseline before it replaces the current one: if the process is killed in between,
 * the note matches both baselines. An attacker who restores the note together with the baseline is detected by
 * ../database/newest-baseline.ts.
 */
import { sameDigest, type SigningKey, type VerifyingKey } from '../database/signature.ts';
import { type NoteKind, readNote, writeNote } from './note-file.ts';
import { BaselineError } from '../database/baseline-error.ts';

export interface LastBaseline {
  /** Digest of the current baseline; absent before the first one. */
  readonly digest?: string;
  /** Digest of the baseline that is about to replace it. */
  readonly next?: string;
}

const kind: NoteKind = {
  purpose: 'last baseline',
  unreadable: 'the record of the latest baseline cannot be read',
  unsigned: 'the record of the latest baseline is not signed with the expected key',
};

/** @throws RampartError FULL, SYSTEM: the note is unchanged */
export async function writeLastBaseline(path: string, note: LastBaseline, key: SigningKey): Promise<void> {
  await writeNote(path, kind, note, key);
}

/**
 * The note; undefined if it does not exist.
 *
 * @throws BaselineError if it is not signed with the key
 */
export async function readLastBaseline(path: string, key: VerifyingKey): Promise<LastBaseline | undefined> {
  return (await readNote(path, kind, key)) as LastBaseline | undefined;
}

/**
 * Checks that a baseline is the one in the note next to it.
 *
 * @throws BaselineError if it is not, or if there is no note
 */
export function checkLast(
  path: string,
  digest: string,
  note: LastBaseline | undefined,
  madeAtMs?: number,
): asserts note {
  if (note === undefined) {
    const why = 'it cannot be verified as the latest one: the record beside it is gone';
    throw new BaselineError('outdated', path, why);
  }
  if ([note.digest, note.next].some((known) => known !== undefined && sameDigest(digest, known))) return;
  const made = madeAtMs === undefined ? '' : `; it was created at ${new Date(madeAtMs).toISOString()}`;
  throw new BaselineError('outdated', path, `it is not the latest one${made}`);
}
