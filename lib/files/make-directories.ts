import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Like `mkdir -p`, for the owner only. Node's own `recursive` never ends, and ignores signals, if a parent
 * exists and mkdir(2) says ENOENT for its children, as all of /proc does; it also reports a read-only file
 * system as ENOENT.
 *
 * @throws the error of mkdir(2), with its code: ENOENT, EROFS, EACCES, ENOTDIR, EEXIST if a file is in the
 * way
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
