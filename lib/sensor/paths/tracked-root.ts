/**
 * The root directory that tracked paths start from, and changes below it that inotify does not report:
 * mounts, and the end of the process whose root it is.
 */
import { readSync } from 'node:fs';

import { pollReadable } from '../../ebpf/ffi.ts';
import {
  AT_FDCWD,
  epollAdd,
  epollCreate,
  epollEvents,
  Fd,
  openat2,
  openFlags,
  pidfdOpen,
  SystemCallError,
} from '../../ebpf/libc.ts';
import { toByteString } from './inotify.ts';
import { openInRoot } from './resolve.ts';
import { walk, type WalkVisitor } from './walk.ts';

const DIRECTORY = { flags: openFlags.PATH | openFlags.DIRECTORY };

/** The whole text behind a descriptor; unlike opening its path again it works when the process is gone. */
function readFromStart(fd: Fd): string {
  let text = '';
  for (let length = -1; length !== 0;) {
    length = readSync(fd.number, textChunk, 0, textChunk.byteLength, text.length);
    text += textChunk.toString('latin1', 0, length);
  }
  return text;
}

/** The buffer that all reads share. */
const textChunk = Buffer.allocUnsafeSlow(64 * 1024);

/**
 * Calls `onChange` after each change of a mount namespace: a /proc/PID/mountinfo descriptor has POLLPRI then
 * (proc_pid_mountinfo(5)). libuv can't wait for POLLPRI by itself, so an epoll descriptor that waits for it
 * is polled.
 *
 * The kernel reports a change to the first poll only (mounts_poll in fs/proc_namespace.c). The event loop's poll
 * of the epoll descriptor is that one, and an epoll_wait after it would find nothing: so the wake-up itself is
 * the message. When libuv adds the descriptor, it polls too but drops the result: changes until then are found by
 * comparing the table itself.
 *
 * @param mountinfo - Taken over. While it is open it holds the mount namespace and with it every
 *   filesystem mounted there: dispose the watch when the container ends.
 */
export function watchMounts(mountinfo: Fd, onChange: () => void): Disposable {
  const stack = new DisposableStack();
  stack.use(mountinfo);
  try {
    const epoll = stack.use(epollCreate());
    epollAdd(epoll, mountinfo.number, epollEvents.PRI);
    // The text takes some kB for each container, so it is not kept longer than needed.
    let before: string | undefined = readFromStart(mountinfo);
    stack.use(pollReadable(epoll.number, onChange));
    let check: NodeJS.Immediate;
    // In the second check phase from here: if this function is called in a poll phase, the first one comes before the event loop has polled
    // the descriptor.
    check = setImmediate(() => {
      check = setImmediate(() => {
        const same = readFromStart(mountinfo) === before;
        before = undefined;
        if (!same) onChange();
      });
    });
    stack.defer(() => clearImmediate(check));
  } catch (error) {
    stack.dispose();
    throw error;
  }
  return stack;
}

/** Calls `onExit` once when process `pid` has ended. */
function watchExit(pid: number, onExit: () => void): Disposable {
  const stack = new DisposableStack();
  const pidfd = stack.use(pidfdOpen(pid));
  stack.use(
    pollReadable(pidfd.number, () => {
      stack.dispose();
      onExit();
    }),
  );
  return stack;
}

interface TrackedRootListener {
  /** The mounts of the root's namespace changed. Not called for the agent's own namespace. */
  onMounts(): void;
  /** The process whose root it was has ended. */
  onExit(): void;
}

/**
 * A root directory given by its path. It is opened again for each use and never held, because an
 * open directory keeps its filesystem from being unmounted.
 *
 * `/proc/PID/root` means the root of that process in its mount namespace. The process is held by
 * its directory in procfs, so that another process which gets the same number later is never taken
 * for it.
 */
export class TrackedRoot implements Disposable {
  readonly path: string;
  /** Whether the root lies in the agent's own mount namespace. */
  readonly ownNamespace: boolean;
  readonly #stack = new DisposableStack();
  readonly #process: Fd | SystemCallError | undefined;
  /** The path below the process's root. */
  readonly #below: string;

  constructor(path: string, listener: TrackedRootListener) {
    this.path = path;
    const [, processPath, pid, below] = /^(.*\/(\d+))\/root(\/.*)?$/.exec(path) ?? [];
    this.ownNamespace = processPath === undefined;
    this.#below = below ?? '/';
    if (processPath === undefined) return;
    try {
      this.#process = this.#stack.use(openat2(AT_FDCWD, processPath, DIRECTORY));
      const mountinfo = openat2(this.#process, 'mountinfo', { flags: 0 });
      const mounts = this.#stack.use(watchMounts(mountinfo, () => listener.onMounts()));
      const onExit = (): void => {
        // Otherwise the file systems of the dead container would stay in use.
        mounts[Symbol.dispose]();
        listener.onExit();
      };
      // Elsewhere (a host's procfs inside a container) the number may be of another pid namespace.
      if (processPath === `/proc/${pid}`) this.#stack.use(watchExit(Number(pid), onExit));
    } catch (error) {
      this.#stack.dispose();
      if (!(error instanceof SystemCallError)) throw error;
      this.#process = error;
    }
  }

  /** An O_PATH descriptor the caller disposes. @throws {SystemCallError} for no such directory or process. */
  open(): Fd {
    if (this.#process === undefined) return openat2(AT_FDCWD, this.path, DIRECTORY);
    if (this.#process instanceof SystemCallError) throw this.#process;
    try {
      const base = openat2(this.#process, 'root', DIRECTORY);
      if (this.#below === '/') return base;
      using _ = base;
      return openInRoot(base, this.#below, { directory: true });
    } catch (error) {
      if (!(error instanceof SystemCallError)) throw error;
      // The original message names one step of the path; this one names the whole path.
      throw new SystemCallError(`cannot open ${this.path}`, error.number);
    }
  }

  /** Shows the directories that lead to the root to `visitor`, so that the root is followed too. */
  walkTo<D>(visitor: WalkVisitor<D>): void {
    if (this.#process instanceof SystemCallError) return;
    if (this.#process === undefined) {
      using base = openat2(AT_FDCWD, '/', DIRECTORY);
      walk(base, toByteString(this.path), visitor);
    } else if (this.#below !== '/') {
      using base = openat2(this.#process, 'root', DIRECTORY);
      walk(base, toByteString(this.#below), visitor);
    }
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

/** Opens the table of the agent's own mounts for {@link watchMounts}. */
export function openOwnMountinfo(): Fd {
  return openat2(AT_FDCWD, '/proc/self/mountinfo', { flags: 0 });
}

/** {@link TrackedRoot.open} without an exception; the caller disposes what was opened. */
export function tryOpenRoot(root: TrackedRoot): Fd | SystemCallError {
  try {
    return root.open();
  } catch (error) {
    if (!(error instanceof SystemCallError)) throw error;
    return error;
  }
}

/** Roots that are kept open for a while, each opened once. */
export class OpenRoots {
  readonly #roots = new Map<TrackedRoot, Fd | SystemCallError>();

  /** The root, or why it cannot be opened; valid until {@link OpenRoots.close}. */
  open(root: TrackedRoot): Fd | SystemCallError {
    let opened = this.#roots.get(root);
    if (opened === undefined) this.#roots.set(root, (opened = tryOpenRoot(root)));
    return opened;
  }

  close(): void {
    for (const root of this.#roots.values()) if (root instanceof Fd) root[Symbol.dispose]();
    this.#roots.clear();
  }
}
