/**
 * Which baseline is the last one. An older one is signed as well: without this, putting it back would hide what has changed
 * since.
 *
 * The note lies beside the baseline and is signed with its key. Two files cannot be replaced at once, so it tells a baseline
 * that is to come before that takes its place: a kill in between leaves a note that fits the one before and the one after.
 * Who puts back the note together with the baseline is not found out by it.
 *
 * @module
 */
import { readFile } from 'node:fs/promises';
import { BaselineError } from '../database/baseline-error.ts';
import { replaceFile } from '../database/replace-file.ts';
import type { SigningKey, VerifyingKey } from '../database/signature.ts';
import { seal, unseal } from './seal.ts';

export interface LastBaseline {
  /** Of the baseline that is there; absent before there was one. */
  readonly digest?: string;
  /** Of one that is about to take its place. */
  readonly next?: string;
}

const purpose = 'last baseline';

/** @throws RampartError FULL, SYSTEM; the note is as it was then */
export async function writeLastBaseline(path: string, note: LastBaseline, key: SigningKey): Promise<void> {
  await replaceFile(path, async (file) => file.writeFile(seal(purpose, JSON.stringify(note), key)));
}

/**
 * Undefined where there is none.
 *
 * @throws BaselineError where it is none of ours
 */
export async function readLastBaseline(path: string, key: VerifyingKey): Promise<LastBaseline | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new BaselineError(
      'damaged',
      path,
      `the note of the last one cannot be read: ${String(error)}`,
      error,
    );
  }
  const note = unseal(purpose, text, key);
  if (note !== undefined) return JSON.parse(note) as LastBaseline;
  throw new BaselineError(
    'wrong signature',
    path,
    'the note of the last one is not signed with the key that is expected',
  );
}
