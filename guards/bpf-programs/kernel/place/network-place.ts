/**
 * Network namespaces: the node's own and those of containers.
 *
 * A visit is one synchronous block on the main thread: setns(2) applies to one thread, and during a synchronous block nothing else runs on
 * that thread. The threads of the pool stay where they are.
 */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { errno, libc } from '../../../../lib/ebpf/ffi.ts';
import { AT_FDCWD, Fd, openat2, SystemCallError, tryOpenat2 } from '../../../../lib/ebpf/libc.ts';
import type { InterfaceHook } from '../desired.ts';
import { ProgramFailure } from '../failure.ts';
import { openContainer } from './container.ts';

const CLONE_NEWNET = 0x40000000;
const OWN = '/proc/thread-self/ns/net';

/** A network namespace that is held open for the duration of one change. Dispose of it: an open namespace outlives its pod. */
export class NetworkPlace implements Disposable {
  /** Inode of the namespace: the same for all containers of a pod. */
  readonly inode: bigint;
  readonly inContainer: boolean;
  readonly #namespace: Fd | undefined;

  private constructor(inode: bigint, namespace: Fd | undefined) {
    this.inode = inode;
    this.inContainer = namespace !== undefined;
    this.#namespace = namespace;
  }

  /** The node's own namespace, which this process is in. */
  static own(): NetworkPlace {
    return new NetworkPlace(statSync(OWN, { bigint: true }).ino, undefined);
  }

  /** @throws {ProgramFailure} `target` if the container or the named namespace is gone. */
  static of({ container, namespacePath }: Omit<InterfaceHook, 'interface'>): NetworkPlace {
    if (namespacePath !== undefined) {
      try {
        return NetworkPlace.at(namespacePath);
      } catch (error) {
        if (!(error instanceof SystemCallError)) throw error;
        throw new ProgramFailure('target', `The network namespace is gone: ${error.message}.`, true, error);
      }
    }
    if (container === undefined) return NetworkPlace.own();
    using directory = openContainer(container);
    const fd = openat2(directory, 'ns/net', { flags: 0 });
    return new NetworkPlace(inodeOf(fd), fd);
  }

  /** The namespace at a path: `/run/netns/NAME`, `/proc/PID/ns/net`. @throws {SystemCallError} `SYSTEM` */
  static at(path: string): NetworkPlace {
    const fd = openat2(AT_FDCWD, path, { flags: 0 });
    return new NetworkPlace(inodeOf(fd), fd);
  }

  /** A namespace of which only the inode is known: searched among processes and named namespaces. Undefined if it no longer exists. */
  static find(inode: bigint): NetworkPlace | undefined {
    const own = NetworkPlace.own();
    if (own.inode === inode) return own;
    const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    // Where the node's named namespaces are; the second path is for an agent in a pod.
    const names = ['/run/netns', '/proc/1/root/run/netns'].flatMap((directory) =>
      listed(directory).map((name) => join(directory, name)),
    );
    for (const path of [...processes.map((pid) => `/proc/${pid}/ns/net`), ...names]) {
      if (inodeAt(path) !== inode) continue;
      const number = tryOpenat2(AT_FDCWD, path, { flags: 0 });
      if (number < 0) continue;
      const fd = new Fd(number);
      if (inodeOf(fd) === inode) return new NetworkPlace(inode, fd);
      fd[Symbol.dispose]();
    }
    return undefined;
  }

  /** Runs `work` with this thread in the namespace; `work` must be synchronous. */
  visit<T>(work: () => T): T {
    if (this.#namespace === undefined) return work();
    using own = openat2(AT_FDCWD, OWN, { flags: 0 });
    if (libc.setns(this.#namespace.number, CLONE_NEWNET) < 0)
      throw new ProgramFailure(
        'target',
        new SystemCallError('cannot enter the network of the container', errno(), 'CAP_SYS_ADMIN is required')
          .message,
        true,
      );
    try {
      return work();
    } finally {
      // If the thread cannot return, everything else in this process would happen in a tenant's network.
      if (libc.setns(own.number, CLONE_NEWNET) < 0) process.abort();
    }
  }

  [Symbol.dispose](): void {
    this.#namespace?.[Symbol.dispose]();
  }
}

/** Undefined if the process has just ended, or may not be inspected. */
function inodeAt(path: string): bigint | undefined {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false })?.ino;
  } catch {
    return undefined;
  }
}

function inodeOf(fd: Fd): bigint {
  return statSync(`/proc/self/fd/${fd.number}`, { bigint: true }).ino;
}

function listed(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}
