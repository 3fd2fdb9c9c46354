/**
 * What an agent has to know of a job after it was started again, signed with the key of the baselines.
 *
 * @module
 */
import { readFile } from 'node:fs/promises';
import { BaselineError } from '../database/baseline-error.ts';
import { replaceFile } from '../database/replace-file.ts';
import type { SigningKey, VerifyingKey } from '../database/signature.ts';
import type { IntegrityProvider } from '../provider.ts';
import { seal, unseal } from '../signed-notes/seal.ts';

export interface JobNotes {
  /** Of the last result. */
  readonly sequence: number;
  /** Who made the last baseline. */
  readonly madeBy?: IntegrityProvider['name'];
  /** When the last scan ended, ms since 1970. */
  readonly checkedMs?: number;
  /** Ids of requests, the latest last. */
  readonly doneRequests: readonly string[];
}

export const noNotes: JobNotes = { sequence: 0, doneRequests: [] };
/** Later ones are more than a cluster asks for in the time that an annotation takes to go. */
export const maxDoneRequests = 100;

const purpose = 'notes of a job';

/** @throws RampartError FULL, SYSTEM */
export async function writeJobNotes(path: string, notes: JobNotes, key: SigningKey): Promise<void> {
  await replaceFile(path, async (file) => file.writeFile(seal(purpose, JSON.stringify(notes), key)));
}

/** None where there are none. @throws BaselineError where they are not ours: somebody wants a baseline to be made anew */
export async function readJobNotes(path: string, key: VerifyingKey): Promise<JobNotes> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return noNotes;
    throw new BaselineError(
      'damaged',
      path,
      `the agent's notes of it cannot be read: ${String(error)}`,
      error,
    );
  }
  const notes = unseal(purpose, text, key);
  if (notes !== undefined) return JSON.parse(notes) as JobNotes;
  throw new BaselineError(
    'wrong signature',
    path,
    "the agent's notes of it are not signed with the key that is expected",
  );
}
