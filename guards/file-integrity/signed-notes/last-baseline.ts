/**
 * Which baseline is the last one. An older one is signed as well: without this, putting it back would hide what has changed
 * since.
 *
 * The note lies beside the baseline and is signed with its key. Two files cannot be replaced at once, so it tells a baseline
 * that is to come before that takes its place: a kill in between leaves a note that fits the one before and the one after.
 * Who puts back the note together with the baseline is not found out by it, but by ../database/newest-baseline.ts.
 */
import { sameDigest, type SigningKey, type VerifyingKey } from '../database/signature.ts';
import { type NoteKind, readNote, writeNote } from './note-file.ts';
import { BaselineError } from '../database/baseline-error.ts';

export interface LastBaseline {
  /** Of the baseline that is there; absent before there was one. */
  readonly digest?: string;
  /** Of one that is about to take its place. */
  readonly next?: string;
}

const kind: NoteKind = {
  purpose: 'last baseline',
  unreadable: 'the record of the latest baseline cannot be read',
  unsigned: 'the record of the latest baseline is not signed with the expected key',
};

/** @throws RampartError FULL, SYSTEM; the note is as it was then */
export async function writeLastBaseline(path: string, note: LastBaseline, key: SigningKey): Promise<void> {
  await writeNote(path, kind, note, key);
}

/**
 * Undefined where there is none.
 *
 * @throws BaselineError where it is none of ours
 */
export async function readLastBaseline(path: string, key: VerifyingKey): Promise<LastBaseline | undefined> {
  return (await readNote(path, kind, key)) as LastBaseline | undefined;
}

/**
 * Whether a baseline is the one that the note beside it tells of.
 *
 * @throws BaselineError where it is not
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
