/** Opens the file behind stdout again on SIGHUP, as logrotate expects of a program whose output goes to a file. */
import { closeSync, constants, fstatSync, openSync, readlinkSync } from 'node:fs';

import { errno, libc } from '../ebpf/ffi.ts';
import { SystemCallError } from '../ebpf/libc.ts';

const STDOUT = 1;
const FILE_MODE = 0o640;

/**
 * From now on, SIGHUP opens the file that stdout goes to again, by its present name, and puts it in the place of the old one. dup2(2)
 * does that at once: each write(2), even one of another thread, goes whole either to the old file or to the new one, so nothing is
 * lost. If stdout is not a file, SIGHUP ends the process as before.
 *
 * @param failed - Called if the file cannot be opened: output then continues to the old one.
 * @returns an object for the caller to dispose: after that, SIGHUP ends the process again
 */
export function reopenOnHangup(failed: (path: string, error: unknown) => void): Disposable {
  if (!fstatSync(STDOUT).isFile()) return { [Symbol.dispose]: () => undefined };
  const path = readlinkSync(`/proc/self/fd/${STDOUT}`);
  const reopen = (): void => {
    try {
      const fd = openSync(path, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT, FILE_MODE);
      const result = libc.dup2(fd, STDOUT);
      const number = errno();
      closeSync(fd);
      if (result < 0) throw new SystemCallError('cannot replace stdout', number);
    } catch (error) {
      failed(path, error);
    }
  };
  process.on('SIGHUP', reopen);
  return { [Symbol.dispose]: () => void process.off('SIGHUP', reopen) };
}
