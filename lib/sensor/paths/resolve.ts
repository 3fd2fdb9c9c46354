/**
 * Paths inside a root directory: resolved as a process whose `/` it is would resolve them, never
 * leaving it. The root may be a container's (`/proc/PID/root`) and everything in it hostile.
 */
import { fchmodSync } from 'node:fs';
import { constants } from 'node:os';

import { Fd, openFlags, resolveFlags, SystemCallError, tryOpenat2, type OpenHow } from '../../ebpf/libc.ts';
import { errorCodes, RampartError } from '../../errors/errors.ts';

const IN_ROOT = resolveFlags.IN_ROOT | resolveFlags.NO_MAGICLINKS;

interface OpenInRootOptions {
  /** Opens a final symbolic link itself instead of what it points to; default false. */
  readonly noFollow?: boolean;
  /** Fails with ENOTDIR unless the path is a directory; default false. */
  readonly directory?: boolean;
}

/** A NUL would silently cut the path where C stops reading. */
function checkPath(path: string): void {
  if (!path.includes('\0')) return;
  throw new RampartError(errorCodes.INPUT, { what: `the path ${JSON.stringify(path)} contains a NUL` });
}

function tryOpen(root: Fd | number, path: string, how: OpenHow): number {
  checkPath(path);
  return tryOpenat2(root, path, how);
}

/**
 * {@link openInRoot} without an exception, for loops in which an absent file is ordinary.
 *
 * @returns a descriptor the caller closes, or the errno as a negative number.
 * @throws {RampartError} `INPUT` when the path contains a NUL.
 */
export function tryOpenInRoot(root: Fd | number, path: string, options: OpenInRootOptions = {}): number {
  return tryOpen(root, path, {
    flags:
      openFlags.PATH |
      (options.noFollow === true ? openFlags.NOFOLLOW : 0) |
      (options.directory === true ? openFlags.DIRECTORY : 0),
    resolve: IN_ROOT,
  });
}

/**
 * An O_PATH descriptor of the file at `path` under `root`: it names the file but opens nothing, so
 * no access is made or checked beyond searching the directories. Absolute symbolic links start
 * again at `root`, `..` stops at it, and the magic links of procfs are refused (ELOOP).
 *
 * @param root - A directory; the caller keeps it.
 * @returns a handle the caller disposes.
 * @throws {SystemCallError} `SYSTEM`: ENOENT, ENOTDIR, EACCES, ELOOP, ENAMETOOLONG, EAGAIN, ...
 * @throws {RampartError} `INPUT` when the path contains a NUL.
 */
export function openInRoot(root: Fd | number, path: string, options: OpenInRootOptions = {}): Fd {
  const fd = tryOpenInRoot(root, path, options);
  if (fd < 0) throw new SystemCallError(`cannot resolve ${path}`, -fd);
  return new Fd(fd);
}

/**
 * Creates an empty regular file when nothing has its name yet. It never truncates, opens or changes
 * what is there, a symbolic link (dangling or not) included, and never creates outside `root`.
 *
 * @param modeBits - Permission bits, 0 to 0o7777; the umask does not narrow them.
 * @returns whether it created the file.
 * @throws {SystemCallError} `SYSTEM` when the file is absent and cannot be created: ENOENT for a
 *   missing parent, EACCES, EROFS, ...
 * @throws {RampartError} `INPUT` for a bad mode or a path that contains a NUL.
 */
export function createInRoot(root: Fd | number, path: string, modeBits: number): boolean {
  if (!Number.isInteger(modeBits) || modeBits < 0 || modeBits > 0o7777) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot create ${path}`,
      why: `the mode ${modeBits} is not between 0 and 07777 (octal)`,
    });
  }
  const { WRONLY, CREAT, EXCL, NOFOLLOW } = openFlags;
  const number = tryOpen(root, path, {
    flags: WRONLY | CREAT | EXCL | NOFOLLOW,
    mode: modeBits,
    resolve: IN_ROOT,
  });
  if (number === -constants.errno.EEXIST) return false;
  if (number < 0) throw new SystemCallError(`cannot create ${path}`, -number);
  using fd = new Fd(number);
  try {
    // The umask took bits away at the creation, so that until here the file was never too open.
    fchmodSync(fd.number, modeBits);
  } catch (error) {
    const failure = error as NodeJS.ErrnoException;
    throw new SystemCallError(`cannot set the mode of ${path}`, -(failure.errno ?? 0));
  }
  return true;
}
