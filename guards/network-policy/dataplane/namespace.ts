/** Keeps the network namespace of a thread for later use: by then, another part of the process may have changed the thread's namespace. */
import { closeSync, fstatSync, openSync, statSync } from 'node:fs';
import { getSystemErrorName } from 'node:util';

import { errno, libc } from '../../../lib/ebpf/ffi.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';

const CLONE_NEWNET = 0x40000000;
const ownNamespace = '/proc/thread-self/ns/net';

/** Holds a descriptor: the namespace exists until this is disposed. */
export class KeptNamespace implements Disposable {
  readonly #fd: number;
  readonly #inode: number;

  /** Opens the namespace of the calling thread. */
  constructor() {
    this.#fd = openSync(ownNamespace, 'r');
    this.#inode = fstatSync(this.#fd).ino;
  }

  /**
   * Creates an empty namespace, for trials. The thread stays in its own.
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
   * Runs `work`, which must be synchronous, in this namespace. Sockets and processes that it creates stay in the
   * namespace. Requires CAP_SYS_ADMIN unless the thread is in the namespace already.
   *
   * @throws {RampartError} `SYSTEM` if the thread cannot enter the namespace.
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
