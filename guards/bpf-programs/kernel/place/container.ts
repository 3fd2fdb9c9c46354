/** A container, reached through one of its processes. */
import { AT_FDCWD, type Fd, openat2, openFlags, SystemCallError } from '../../../../lib/ebpf/libc.ts';
import { readStart } from '../../../../lib/files/bounded-read.ts';
import type { ContainerPlace } from '../desired.ts';
import { ProgramFailure } from '../failure.ts';

/**
 * The directory of the container's process in procfs. Files opened below it belong to that process, even if its pid has been reused since.
 * The caller disposes of it.
 *
 * @throws {ProgramFailure} `target` if the process is gone, or does not belong to the container.
 * @throws {SystemCallError} `SYSTEM` if it may not be inspected.
 */
export function openContainer({ pid, containerId }: ContainerPlace): Fd {
  let directory: Fd;
  try {
    directory = openat2(AT_FDCWD, `/proc/${pid}`, { flags: openFlags.PATH | openFlags.DIRECTORY });
  } catch (error) {
    throw isGone(error) ? gone(containerId, error.message) : error;
  }
  try {
    // The part after the name of the runtime and "://".
    const id = containerId.slice(containerId.lastIndexOf('/') + 1);
    if (id !== '' && !readProcess(directory, 'cgroup').includes(id))
      throw gone(containerId, `process ${pid} now belongs to another container`);
    return directory;
  } catch (error) {
    directory[Symbol.dispose]();
    throw isGone(error) ? gone(containerId, error.message) : error;
  }
}

/** A process may have 65,530 mappings (vm.max_map_count), each with a path of 4,096 bytes. */
const MAX_BYTES = 8 * 1024 * 1024;

/** A file in the directory of the process: its first 8 MiB. @throws {SystemCallError} `SYSTEM` if the process is gone */
export function readProcess(directory: Fd, name: string): string {
  using file = openat2(directory, name, { flags: 0 });
  return readStart(file.number, MAX_BYTES).toString('latin1');
}

function isGone(error: unknown): error is SystemCallError {
  return error instanceof SystemCallError && ['ENOENT', 'ESRCH', 'ENOTDIR'].includes(error.errno);
}

function gone(containerId: string, why: string): ProgramFailure {
  return new ProgramFailure('target', `The container ${containerId} is gone: ${why}.`, true);
}
