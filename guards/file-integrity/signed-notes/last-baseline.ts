/**
 * Which baseline is the last one. An older one is signed as well: without this, putting it back would hide
 * later changes. The note is beside the baseline and signed with its key. Two files cannot be replaced at
 * once, so it announces a coming baseline before that takes its place: a kill in between leaves a note that
 * fits both. An attacker who puts back the note together with the baseline is detected by
 * ../database/newest-baseline.ts.
 */
import { sameDigest, type SigningKey, type VerifyingKey } from '../database/signature.ts';
import { type NoteKind, readNote, writeNote } from './note-file.ts';
import { BaselineError } from '../database/baseline-error.ts';

export interface LastBaseline {
  /** Digest of the present baseline; absent before the first one. */
  readonly digest?: string;
  /** Digest of the one that is about to take its place. */
  readonly next?: string;
}

const kind: NoteKind = {
  purpose: 'last baseline',
  unreadable: 'the record of the latest baseline cannot be read',
  unsigned: 'the record of the latest baseline is not signed with the expected key',
};

/** @throws RampartError FULL, SYSTEM; the note is unchanged then */
export async function writeLastBaseline(path: string, note: LastBaseline, key: SigningKey): Promise<void> {
  await writeNote(path, kind, note, key);
}

/**
 * Undefined if it does not exist.
 *
 * @throws BaselineError if it is not ours
 */
export async function readLastBaseline(path: string, key: VerifyingKey): Promise<LastBaseline | undefined> {
  return (await readNote(path, kind, key)) as LastBaseline | undefined;
}

/**
 * Checks that a baseline is the one in the note beside it.
 *
 * @throws BaselineError if it is not
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
