/**
 * The network namespace that a thread has, kept for what is done later: another part of the process may be elsewhere then.
 */
import { closeSync, fstatSync, openSync, statSync } from 'node:fs';
import { getSystemErrorName } from 'node:util';

import { errno, libc } from '../../../lib/ebpf/ffi.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';

const CLONE_NEWNET = 0x40000000;
const ownNamespace = '/proc/thread-self/ns/net';

/** Holds a descriptor: the namespace stays as long as this is not disposed. */
export class KeptNamespace implements Disposable {
  readonly #fd: number;
  readonly #inode: number;

  /** Opens the namespace of the calling thread. */
  constructor() {
    this.#fd = openSync(ownNamespace, 'r');
    this.#inode = fstatSync(this.#fd).ino;
  }

  /**
   * A new one, with nothing in it: for what is only tried. The thread stays where it is.
   *
   * @throws {RampartError} `PRIVILEGE` without CAP_SYS_ADMIN.
   */
  static create(): KeptNamespace {
    const outside = openSync(ownNamespace, 'r');
    try {
      if (libc.unshare(CLONE_NEWNET) !== 0) {
        throw new RampartError(errorCodes.PRIVILEGE, {
          what: 'cannot create a network namespace',
          why: getSystemErrorName(-errno()),
          next: 'CAP_SYS_ADMIN is required',
        });
      }
      const made = new KeptNamespace();
      enter(outside);
      return made;
    } finally {
      closeSync(outside);
    }
  }

  /**
   * Sockets and processes that `work` makes belong to this namespace for good. Nothing may be awaited in it. No
   * capability is needed if the thread is in it already; else CAP_SYS_ADMIN.
   *
   * @throws {RampartError} `SYSTEM` if the thread cannot go there.
   */
  run<T>(work: () => T): T {
    if (statSync(ownNamespace).ino === this.#inode) return work();
    const outside = openSync(ownNamespace, 'r');
    try {
      enter(this.#fd);
      return work();
    } finally {
      enter(outside);
      closeSync(outside);
    }
  }

  [Symbol.dispose](): void {
    closeSync(this.#fd);
  }
}

function enter(fd: number): void {
  if (libc.setns(fd, CLONE_NEWNET) === 0) return;
  throw new RampartError(errorCodes.SYSTEM, {
    what: 'cannot enter a network namespace',
    why: getSystemErrorName(-errno()),
  });
}
