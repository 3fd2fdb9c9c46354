/** Files that only their owner may read: keys, the token, the kubeconfig. */
import {
  accessSync,
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { randomBytes } from 'node:crypto';
import { dirname } from 'node:path';

import { errorCodes, fileError, RampartError } from '../../errors/errors.ts';
import { makeDirectories } from '../../files/make-directories.ts';

/**
 * Makes a directory that only its owner may enter. An existing one is unchanged, but refused if others could
 * put their own files into it.
 *
 * @throws {RampartError} `INPUT` for a directory that others can write to, or that cannot be created or
 * written to.
 */
export function ensurePrivateDirectory(path: string): void {
  let doing = 'make';
  try {
    makeDirectories(path);
    doing = 'write to';
    accessSync(path, constants.W_OK);
  } catch (error) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot ${doing} the directory ${path}`,
      why: (error as Error).message,
      next: 'Give another directory',
      cause: error,
    });
  }
  const { mode } = statSync(path);
  if ((mode & 0o022) === 0) return;
  throw new RampartError(errorCodes.INPUT, {
    what: `cannot keep keys in ${path}`,
    why: `others can write to it (mode ${octal(mode)})`,
    next: `Run: chmod 700 ${path}`,
  });
}

/**
 * @returns the text, or `undefined` if the file does not exist.
 * @throws {RampartError} `INPUT` for a file that others can read, or that belongs to another user; `SYSTEM`
 * when it cannot be read.
 */
export function readPrivateFile(path: string): string | undefined {
  let descriptor: number;
  try {
    // Opened before it is checked, so that the checked file is the one that is read. O_NONBLOCK: does not block on a FIFO.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw fileError(`cannot read ${path}`, error);
  }
  try {
    const stats = fstatSync(descriptor);
    const refuse = (why: string, next: string): RampartError =>
      new RampartError(errorCodes.INPUT, { what: `cannot use ${path}`, why, next });
    if (!stats.isFile()) throw refuse('it is not a regular file', 'Remove it; it will be created again');
    const owner = process.geteuid?.();
    if (owner !== undefined && stats.uid !== owner && stats.uid !== 0) {
      throw refuse(
        `it belongs to user ${stats.uid}, and this process runs as ${owner}`,
        `Run as user ${stats.uid}, or remove it; it will be created again`,
      );
    }
    if ((stats.mode & 0o077) !== 0) {
      throw refuse(
        `others can read or write it (mode ${octal(stats.mode)}), so it may be compromised`,
        `Remove it, and it will be created again; or run: chmod 600 ${path}`,
      );
    }
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}

/** Mode 0600, whole or not at all, even if the power fails. @throws {RampartError} `FULL`, `SYSTEM` */
export function writePrivateFile(path: string, text: string): void {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  try {
    const descriptor = openSync(temporary, 'wx', 0o600);
    try {
      writeFileSync(descriptor, text);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(temporary, path);
    syncDirectory(dirname(path));
  } catch (error) {
    rmSync(temporary, { force: true });
    throw fileError(`cannot write ${path}`, error);
  }
}

function syncDirectory(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function octal(mode: number): string {
  return (mode & 0o777).toString(8).padStart(4, '0');
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
