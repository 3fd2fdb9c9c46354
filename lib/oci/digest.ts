/** Digests of content, `sha256:<hex>`: fetched content is only valid if it matches its digest. */
import { createHash } from 'node:crypto';

import { errorCodes, RampartError } from '../errors/errors.ts';

const digestForm = /^(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/;

/** Whether it has a supported algorithm: sha256, sha512. */
export function isDigest(text: string): boolean {
  return digestForm.test(text);
}

export function digestOf(bytes: Uint8Array, algorithm = 'sha256'): string {
  return `${algorithm}:${createHash(algorithm).update(bytes).digest('hex')}`;
}

export function agrees(bytes: Uint8Array, digest: string): boolean {
  return digestOf(bytes, digest.slice(0, digest.indexOf(':'))) === digest;
}

/** @throws {RampartError} `CORRUPT` if the bytes do not match the digest. */
export function checkDigest(bytes: Uint8Array, digest: string, what: string): void {
  if (agrees(bytes, digest)) return;
  throw new RampartError(errorCodes.CORRUPT, {
    what: `${what} does not match its digest`,
    why: `its digest is ${digestOf(bytes, digest.slice(0, digest.indexOf(':')))}, not ${digest}`,
    next: 'It was changed in transit or in the registry: find out how, and push it again',
  });
}
