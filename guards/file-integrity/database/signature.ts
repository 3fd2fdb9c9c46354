/**
 * Signatures of baselines. The reader determines the scheme and the key; what the file says about them only makes
 * errors clearer. So editing a file can neither choose a weaker scheme nor have a public key used as a shared secret.
 */
import { createHash, createHmac, type KeyObject, sign, timingSafeEqual, verify } from 'node:crypto';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';

export type SignatureScheme = 'hmac-sha256' | 'ed25519';

/** A key for signing: a shared secret of at least 32 bytes, or an Ed25519 private key. */
export type SigningKey =
  | { readonly scheme: 'hmac-sha256'; readonly secret: Uint8Array }
  | { readonly scheme: 'ed25519'; readonly privateKey: KeyObject; readonly publicKey: KeyObject };

export type VerifyingKey =
  | { readonly scheme: 'hmac-sha256'; readonly secret: Uint8Array }
  | { readonly scheme: 'ed25519'; readonly publicKey: KeyObject };

const context = 'Rampart file-integrity baseline, version 1';
const shortestSecretBytes = 32;

/** The signature over a digest of everything else in the file. @throws RampartError INPUT */
export function signDigest(digest: Uint8Array, key: SigningKey): Buffer {
  checkKey(key);
  const message = messageOf(digest, key.scheme);
  if (key.scheme === 'hmac-sha256') return createHmac('sha256', key.secret).update(message).digest();
  return sign(null, message, key.privateKey);
}

/** @throws RampartError INPUT if the key is invalid for its scheme */
export function verifyDigest(digest: Uint8Array, signature: Uint8Array, key: VerifyingKey): boolean {
  checkKey(key);
  const message = messageOf(digest, key.scheme);
  if (key.scheme === 'ed25519') return verify(null, message, key.publicKey, signature);
  const expected = createHmac('sha256', key.secret).update(message).digest();
  return signature.length === expected.length && timingSafeEqual(signature, expected);
}

/** Compares two digests in hexadecimal, in constant time. */
export function sameDigest(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one, 'latin1'), Buffer.from(other, 'latin1')];
  return a.length === b.length && timingSafeEqual(a, b);
}

/** Identifies a key without revealing anything about it. */
export function keyId(key: VerifyingKey): string {
  const bytes = key.scheme === 'ed25519' ? key.publicKey.export({ type: 'spki', format: 'der' }) : key.secret;
  return createHash('sha256')
    .update(`${context}: key of ${key.scheme}\0`)
    .update(bytes)
    .digest('hex')
    .slice(0, 16);
}

function messageOf(digest: Uint8Array, scheme: SignatureScheme): Buffer {
  return Buffer.concat([Buffer.from(`${context}\0${scheme}\0`), digest]);
}

function checkKey(key: VerifyingKey): void {
  if (key.scheme === 'hmac-sha256') {
    if (key.secret.length >= shortestSecretBytes) return;
    throw new RampartError(errorCodes.INPUT, {
      what: 'the baseline key cannot be used',
      why: `it has ${key.secret.length} bytes; HMAC-SHA-256 requires at least ${shortestSecretBytes}`,
      next: 'Give 32 random bytes',
    });
  }
  if (key.publicKey.asymmetricKeyType === 'ed25519' && key.publicKey.type === 'public') return;
  throw new RampartError(errorCodes.INPUT, {
    what: 'the baseline key cannot be used',
    why: `it is not an Ed25519 public key but ${key.publicKey.asymmetricKeyType ?? 'a secret'} (${key.publicKey.type})`,
    next: 'Give an Ed25519 key',
  });
}
