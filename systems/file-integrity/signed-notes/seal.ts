/**
 * Small notes of the agent, signed with the key of the baselines: what is said in one file cannot be put into another.
 *
 * @module
 */
import { createHash } from 'node:crypto';
import { signDigest, verifyDigest } from '../database/signature.ts';
import type { SigningKey, VerifyingKey } from '../database/signature.ts';

/** A text and its signature, as one line of JSON. `purpose` is part of what is signed. */
export function seal(purpose: string, text: string, key: SigningKey): string {
  return JSON.stringify({ body: text, signature: signDigest(digestOf(purpose, text), key).toString('hex') });
}

/** The text; undefined where it is none that was sealed for this purpose with this key. */
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
