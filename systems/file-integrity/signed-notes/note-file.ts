/**
 * A note in a file of its own, signed: JSON that is replaced whole.
 *
 * @module
 */
import { readFile } from 'node:fs/promises';
import { BaselineError } from '../database/baseline-error.ts';
import { replaceFile } from '../database/replace-file.ts';
import type { SigningKey, VerifyingKey } from '../database/signature.ts';
import { seal, unseal } from './seal.ts';

/** What kind of note it is. */
export interface NoteKind {
  /** Signed with it: one note does not stand for another. */
  readonly purpose: string;
  /** In errors, after which file it is. */
  readonly unreadable: string;
  readonly unsigned: string;
}

/** @throws RampartError FULL, SYSTEM; the note is as it was then */
export async function writeNote(
  path: string,
  { purpose }: NoteKind,
  note: object,
  key: SigningKey,
): Promise<void> {
  const text = seal(purpose, JSON.stringify(note), key);
  await replaceFile(path, async (file) => file.writeFile(text));
}

/**
 * As it was written; undefined where there is none.
 *
 * @throws BaselineError where it is none of ours
 */
export async function readNote(
  path: string,
  { purpose, unreadable, unsigned }: NoteKind,
  key: VerifyingKey,
): Promise<unknown> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new BaselineError('damaged', path, `${unreadable}: ${String(error)}`, error);
  }
  const note = unseal(purpose, text, key);
  if (note !== undefined) return JSON.parse(note) as unknown;
  throw new BaselineError('wrong signature', path, unsigned);
}
