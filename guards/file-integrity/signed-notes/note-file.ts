/** A note in a file of its own, signed: JSON that is replaced whole. */
import { readFile } from 'node:fs/promises';
import { createHash } from 'node:crypto';

import { BaselineError } from '../database/baseline-error.ts';
import { replaceFile } from '../database/replace-file.ts';
import { signDigest, type SigningKey, verifyDigest, type VerifyingKey } from '../database/signature.ts';

/** A text and its signature, as one line of JSON. `purpose` is part of what is signed. */
export function seal(purpose: string, text: string, key: SigningKey): string {
  return JSON.stringify({ body: text, signature: signDigest(digestOf(purpose, text), key).toString('hex') });
}

/** The text; undefined unless it was sealed for this purpose with this key. */
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
  /** Signed with it: one note does not stand for another. */
  readonly purpose: string;
  /** For errors: what is wrong, after the name of the file. */
  readonly unreadable: string;
  readonly unsigned: string;
}

/** @throws RampartError FULL, SYSTEM; the note is unchanged then */
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
 * As written; undefined if it does not exist.
 *
 * @throws BaselineError if it is not ours
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
