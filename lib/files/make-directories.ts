import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * As `mkdir -p`, for the owner only. Node's own `recursive` never ends, nor listens to a signal, where a parent exists and
 * mkdir(2) says ENOENT for what is in it, as all of /proc does; and it tells of a read-only file system as ENOENT.
 *
 * @throws the error of mkdir(2), with its code: ENOENT, EROFS, EACCES, ENOTDIR, EEXIST where a file is in the way
 */
export function makeDirectories(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
    return;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const found = statSync(path, { throwIfNoEntry: false });
    if (found?.isDirectory() === true) return;
    const above = dirname(path);
    if (code !== 'ENOENT' || statSync(above, { throwIfNoEntry: false }) !== undefined) throw error;
    makeDirectories(above);
  }
  mkdirSync(path, { mode: 0o700 });
}
