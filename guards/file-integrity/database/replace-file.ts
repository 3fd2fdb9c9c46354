/**
 * Writes a file so that its path always leads to the complete old or the complete new file, even after a signal, on a
 * full disk, or after a power loss.
 */
import { randomBytes } from 'node:crypto';
import { type FileHandle, open, readdir, rename, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';

const running = new Set<string>();

/**
 * Calls `write` with a new file of mode 0600 beside `path`, and renames it to `path` once `write` has returned and the
 * bytes are on disk. After a failure, `path` is unchanged, and the new file is removed.
 *
 * @throws RampartError FULL if there is no space, SYSTEM for other errors of the file system; the errors of `write`
 */
export async function replaceFile(path: string, write: (file: FileHandle) => Promise<void>): Promise<void> {
  const directory = dirname(path);
  await attempt(path, () => removeLeftovers(path));
  const temporary = join(directory, `${prefixOf(path)}${process.pid}.${randomBytes(6).toString('hex')}`);
  running.add(temporary);
  try {
    await attempt(path, async () => {
      {
        await using file = await open(temporary, 'wx', 0o600);
        await write(file);
        // The umask may have removed permissions.
        await file.chmod(0o600);
        await file.sync();
      }
      await rename(temporary, path);
    });
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  } finally {
    running.delete(temporary);
  }
  // Sync the directory: until then, a power loss could undo the rename.
  await attempt(path, async () => {
    await using handle = await open(directory, 'r');
    await handle.sync();
  });
}

function prefixOf(path: string): string {
  return `.${basename(path)}.new.`;
}

/** Removes files left by killed writers, but not those of running processes. */
async function removeLeftovers(path: string): Promise<void> {
  const prefix = prefixOf(path);
  for (const name of await readdir(dirname(path))) {
    if (!name.startsWith(prefix)) continue;
    const full = join(dirname(path), name);
    const pid = Number(name.slice(prefix.length).split('.')[0]);
    const alive = pid === process.pid ? running.has(full) : isAlive(pid);
    if (!alive) await unlink(full).catch(() => undefined);
  }
}

function isAlive(pid: number): boolean {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function attempt<T>(path: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof RampartError || !(error instanceof Error) || !('code' in error)) throw error;
    const { code } = error;
    const full = code === 'ENOSPC' || code === 'EDQUOT' || code === 'EFBIG';
    throw new RampartError(full ? errorCodes.FULL : errorCodes.SYSTEM, {
      what: `cannot write ${path}`,
      why: full ? `no space left (${code})` : error.message,
      next: full
        ? `Free space on the file system of ${dirname(path)}. The previous file is unchanged`
        : 'The previous file is unchanged',
      cause: error,
    });
  }
}
