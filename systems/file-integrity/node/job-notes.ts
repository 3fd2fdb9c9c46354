/**
 * What an agent has to know of a job after it was started again, signed with the key of the baselines.
 *
 * @module
 */
import type { SigningKey, VerifyingKey } from '../database/signature.ts';
import type { IntegrityProvider } from '../provider.ts';
import { type NoteKind, readNote, writeNote } from '../signed-notes/note-file.ts';

export interface JobNotes {
  /** Of the last result. */
  readonly sequence: number;
  /** Who made the last baseline. */
  readonly madeBy?: IntegrityProvider['name'];
  /** The uid of the FileIntegrity that it was made for, and when, ms since 1970. */
  readonly madeFor?: { readonly uid: string; readonly atMs: number } | undefined;
  /** Of the Machine Config Operator, when the last baseline was made. */
  readonly machineConfig?: string;
  /** When the last scan ended, ms since 1970. */
  readonly checkedMs?: number;
  /** Ids of requests, the latest last. */
  readonly doneRequests: readonly string[];
}

export const noNotes: JobNotes = { sequence: 0, doneRequests: [] };
/** Later ones are more than a cluster asks for in the time that an annotation takes to go. */
export const maxDoneRequests = 100;

const kind: NoteKind = {
  purpose: 'notes of a job',
  unreadable: "the agent's record of it cannot be read",
  unsigned: "the agent's record of it is not signed with the expected key",
};

/** @throws RampartError FULL, SYSTEM */
export async function writeJobNotes(path: string, notes: JobNotes, key: SigningKey): Promise<void> {
  await writeNote(path, kind, notes, key);
}

/** None where there are none. @throws BaselineError where they are not ours: somebody wants a baseline to be made anew */
export async function readJobNotes(path: string, key: VerifyingKey): Promise<JobNotes> {
  return ((await readNote(path, kind, key)) as JobNotes | undefined) ?? noNotes;
}
