/** A signed note in a file of its own: JSON that is always replaced as a whole. */
import { readFile } from 'node:fs/promises';
import { createHash } from 'node:crypto';

import { BaselineError } from '../database/baseline-error.ts';
import { replaceFile } from '../database/replace-file.ts';
import { signDigest, type SigningKey, verifyDigest, type VerifyingKey } from '../database/signature.ts';

/** Combines a text and its signature into one line of JSON. The signature covers `purpose` too. */
export function seal(purpose: string, text: string, key: SigningKey): string {
  return JSON.stringify({ body: text, signature: signDigest(digestOf(purpose, text), key).toString('hex') });
}

/** The text of a sealed line; undefined unless it was sealed for this purpose with this key. */
export function unseal(purpose: string, sealed: string, key: VerifyingKey): string | undefined {
  let value: unknown;
  try {
    value = JSON.parse(sealed);
  } catch {
    return undefined;
  }
  const { body, signature } = (value ?? {}) as { body?: unknown; signature?: unknown };
  if (typeof body !== 'string' || typeof signature !== 'string') return undefined;
  return verifyDigest(digestOf(purpose, body), Buffer.from(signature, 'hex'), key) ? body : undefined;
}

function digestOf(purpose: string, text: string): Buffer {
  return createHash('sha256').update(`${purpose}\0`).update(text).digest();
}

/** A kind of note. */
export interface NoteKind {
  /** Covered by the signature, so that a note cannot be used in place of another kind. */
  readonly purpose: string;
  /** For error messages: what is wrong, without the file's name. */
  readonly unreadable: string;
  readonly unsigned: string;
}

/** @throws RampartError FULL, SYSTEM: the note is unchanged */
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
 * The note as it was written; undefined if it does not exist.
 *
 * @throws BaselineError if it is not signed with the key
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
