/** Reads and creates the key that signs the baselines of this machine. */
import { createPrivateKey, createPublicKey, randomBytes, type KeyObject } from 'node:crypto';
import { closeSync, openSync, readFileSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

import { makeDirectories } from '../../../lib/files/make-directories.ts';
import { errorCodes, fileError, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import { verifyDigest, type SigningKey, type VerifyingKey } from '../database/signature.ts';

const SECRET_BYTES = 32;

/** @throws {RampartError} `NOT_FOUND`, `SYSTEM` if it cannot be read, `INPUT` if it is invalid */
export function readVerifyingKey(path: string): VerifyingKey {
  const bytes = readKeyFile(path);
  const text = bytes.toString('latin1').trim();
  const key = text.startsWith('-----BEGIN') ? fromPem(path, text) : fromSecret(bytes, text);
  try {
    // Throws if the key cannot be used; the result does not matter.
    verifyDigest(Buffer.alloc(32), Buffer.alloc(64), key);
  } catch (error) {
    throw new RampartError(errorCodes.INPUT, {
      what: `${path} is not a baseline key`,
      why: messageOf(error),
      next: 'Give 32 random bytes, such as from `openssl rand -hex 32`, or an Ed25519 key in PEM',
      cause: error,
    });
  }
  return key;
}

/** @throws as {@link readVerifyingKey}; also `INPUT` for a public key */
export function readSigningKey(path: string): SigningKey {
  const key = readVerifyingKey(path);
  if (key.scheme === 'hmac-sha256' || 'privateKey' in key) return key as SigningKey;
  throw new RampartError(errorCodes.INPUT, {
    what: `${path} cannot sign a baseline`,
    why: 'it is a public key',
    next: 'Give the private key; the public key is enough for a check',
  });
}

/**
 * Creates a file with a secret key, unless the file exists.
 *
 * @returns whether it was created
 * @throws {RampartError} `FULL`, `SYSTEM`
 */
export function makeKeyFile(path: string): boolean {
  try {
    makeDirectories(dirname(path));
    writeNew(path, `${randomBytes(SECRET_BYTES).toString('hex')}\n`);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw fileError(`cannot write ${path}`, error, 'Nothing was changed');
  }
}

/** Writes the whole file or none: otherwise, if the disk is full, the next run would use half a key. */
function writeNew(path: string, text: string): void {
  const fd = openSync(path, 'wx', 0o600);
  try {
    writeFileSync(fd, text, { flush: true });
  } catch (error) {
    unlinkSync(path);
    throw error;
  } finally {
    closeSync(fd);
  }
}

/** A warning if other users may read or write the key; otherwise undefined. */
export function keyWarning(path: string): string | undefined {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0;
  if ((mode & 0o077) === 0) return undefined;
  return `other users may read or write the key ${path}, and anyone who has it can forge a baseline; run: chmod 600 ${path}`;
}

function readKeyFile(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const what = `cannot read the key ${path}`;
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
      throw fileError(what, error, 'The baseline cannot be verified without it');
    throw new RampartError(errorCodes.NOT_FOUND, {
      what,
      why: 'it does not exist',
      next: 'Give the key that the baseline was signed with (--key), or create both with --init',
      cause: error,
    });
  }
}

function fromPem(path: string, text: string): VerifyingKey {
  let privateKey: KeyObject | undefined;
  try {
    if (!text.startsWith('-----BEGIN PUBLIC')) privateKey = createPrivateKey(text);
    const publicKey = createPublicKey(text);
    if (privateKey === undefined) return { scheme: 'ed25519', publicKey };
    const both: SigningKey = { scheme: 'ed25519', privateKey, publicKey };
    return both;
  } catch (error) {
    throw new RampartError(errorCodes.INPUT, {
      what: `${path} is not a baseline key`,
      why: messageOf(error),
      next: 'Give an Ed25519 key without a password: openssl genpkey -algorithm ed25519',
      cause: error,
    });
  }
}

function fromSecret(bytes: Buffer, text: string): VerifyingKey {
  const isHex = /^(?:[0-9a-f]{2}){32,}$/i.test(text);
  return { scheme: 'hmac-sha256', secret: isHex ? Buffer.from(text, 'hex') : bytes };
}
