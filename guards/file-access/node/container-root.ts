/** The root directory of a container, reached through one of its processes. */
import { readFileSync, statSync } from 'node:fs';

import { AT_FDCWD, type Fd, openat2, openFlags, SystemCallError } from '../../../lib/ebpf/libc.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';

const DIRECTORY = { flags: openFlags.PATH | openFlags.DIRECTORY };

/**
 * A container's root, `/proc/PID/root`, or any directory. It holds the process's directory in procfs open, so another
 * process that gets the same PID is never mistaken for it.
 */
export class ContainerRoot implements Disposable {
  readonly path: string;
  readonly containerId: string;
  /** Mount namespace of the process; undefined for a directory of this machine. */
  readonly mountNamespace: number | undefined;
  readonly #process: Fd | undefined;

  /**
   * @param containerId - Unless it is empty, the id must occur in the cgroup path of the process: its PID may have been
   *   reused since the runtime reported it.
   * @throws {RampartError} `NOT_FOUND` if the process is gone or not in the container; otherwise `SYSTEM`, also if the
   *   process may not be examined.
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
      // The part after the runtime's name and "://".
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

  /** Whether the held process still exists. */
  get alive(): boolean {
    if (this.#process === undefined) return true;
    try {
      // A process that has ended but was not waited for (a zombie) has no root directory any longer.
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
