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
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { BaselineError } from '../database/baseline-error.ts';
import { replaceFile } from '../database/replace-file.ts';
import { signDigest, verifyDigest } from '../database/signature.ts';
import type { SigningKey, VerifyingKey } from '../database/signature.ts';

export interface LastBaseline {
  /** Of the baseline that is there; absent before there was one. */
  readonly digest?: string;
  /** Of one that is about to take its place. */
  readonly next?: string;
}

/** Nobody writes that much into a note. */
const longestBytes = 4096;

/** @throws RampartError FULL, SYSTEM; the note is as it was then */
export async function writeLastBaseline(path: string, note: LastBaseline, key: SigningKey): Promise<void> {
  const text = textOf(note);
  const signature = signDigest(digestOf(text), key).toString('hex');
  await replaceFile(path, async (file) => file.writeFile(JSON.stringify({ ...note, signature })));
}

/**
 * Undefined where there is none.
 *
 * @throws BaselineError where it is none of ours
 */
export async function readLastBaseline(path: string, key: VerifyingKey): Promise<LastBaseline | undefined> {
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new BaselineError(
      'damaged',
      path,
      `the note of the last one cannot be read: ${String(error)}`,
      error,
    );
  }
  const { signature, ...note } = parse(path, bytes);
  if (!verifyDigest(digestOf(textOf(note)), Buffer.from(signature, 'hex'), key)) {
    throw new BaselineError(
      'wrong signature',
      path,
      'the note of the last one is not signed with the key that is expected',
    );
  }
  return note;
}

function parse(path: string, bytes: Buffer): LastBaseline & { readonly signature: string } {
  const damaged = (cause?: unknown): BaselineError =>
    new BaselineError('damaged', path, 'the note of the last one is not what was written', cause);
  if (bytes.length > longestBytes) throw damaged();
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    throw damaged(error);
  }
  const { digest, next, signature } = (value ?? {}) as Record<string, unknown>;
  const optional = (text: unknown): text is string | undefined =>
    text === undefined || typeof text === 'string';
  if (!optional(digest) || !optional(next) || typeof signature !== 'string') throw damaged();
  return { ...(digest !== undefined && { digest }), ...(next !== undefined && { next }), signature };
}

function textOf({ digest = '', next = '' }: LastBaseline): string {
  return `last baseline\0${digest}\0${next}`;
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
