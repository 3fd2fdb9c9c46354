/** The root directory of a container, reached through one of its processes. */
import { readFileSync, statSync } from 'node:fs';

import { AT_FDCWD, type Fd, openat2, openFlags, SystemCallError } from '../../../lib/ebpf/libc.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';

const DIRECTORY = { flags: openFlags.PATH | openFlags.DIRECTORY };

/**
 * A container's root, `/proc/PID/root`, or any directory. The process is held by its directory in procfs: another one
 * that gets its number is never taken for it.
 */
export class ContainerRoot implements Disposable {
  readonly path: string;
  readonly containerId: string;
  /** Namespace of the process; undefined for a directory of this machine. */
  readonly mountNamespace: number | undefined;
  readonly #process: Fd | undefined;

  /**
   * @param containerId - When it is not empty, the process must be in a cgroup that has the id in its path: between
   *   the runtime's answer and now its number may have become another's.
   * @throws {RampartError} `NOT_FOUND` when the process is gone or not the container's; `SYSTEM` otherwise, where it
   *   may not be examined, too.
   */
  constructor(path: string, containerId: string) {
    this.path = path;
    this.containerId = containerId;
    const [, processPath] = /^(.*\/\d+)\/root\/?$/.exec(path) ?? [];
    if (processPath === undefined) return;
    let held: Fd;
    try {
      held = openat2(AT_FDCWD, processPath, DIRECTORY);
    } catch (error) {
      throw error instanceof SystemCallError && error.errno === 'ENOENT'
        ? gone(path, 'the process is gone')
        : error;
    }
    try {
      // Behind the runtime's name and "://".
      const id = containerId.slice(containerId.lastIndexOf('/') + 1);
      if (id !== '' && !readBelow(held, 'cgroup').includes(id)) {
        throw gone(path, `the process is not in container ${id}`);
      }
      this.mountNamespace = Number(statSync(`${processPath}/ns/mnt`, { bigint: true }).ino);
      this.#process = held;
      if (!this.alive) throw gone(path, 'the process is gone');
    } catch (error) {
      held[Symbol.dispose]();
      throw error instanceof RampartError ? error : unseen(path, error);
    }
  }

  /** Whether the process that was held is still there. */
  get alive(): boolean {
    if (this.#process === undefined) return true;
    try {
      // A process that has ended but was not waited for has lost its root directory.
      this.open()[Symbol.dispose]();
      return true;
    } catch {
      return false;
    }
  }

  /**
   * @returns an O_PATH descriptor the caller disposes.
   * @throws {SystemCallError} `SYSTEM` when there is no such directory or process.
   */
  open(): Fd {
    return this.#process === undefined
      ? openat2(AT_FDCWD, this.path, DIRECTORY)
      : openat2(this.#process, 'root', DIRECTORY);
  }

  [Symbol.dispose](): void {
    this.#process?.[Symbol.dispose]();
  }
}

function readBelow(directory: Fd, name: string): string {
  using file = openat2(directory, name, { flags: 0 });
  return readFileSync(file.number, 'utf8');
}

function unseen(path: string, error: unknown): RampartError {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code !== 'EACCES' && code !== 'EPERM') return gone(path, message);
  // Entries below /proc/PID of another user's process are protected like its memory: proc_pid(5), ptrace(2).
  return new RampartError(errorCodes.SYSTEM, {
    what: `cannot read the root file system of the container at ${path}`,
    why: message,
    next: 'Give the agent the capability CAP_SYS_PTRACE (deploy/README.md)',
  });
}

function gone(path: string, why: string): RampartError {
  return new RampartError(errorCodes.NOT_FOUND, { what: `no container root file system at ${path}`, why });
}
