/**
 * Network namespaces that have no name and no process: a descriptor of this process holds each, so that the kernel takes them away
 * with all that is in them when the process ends, however it ends.
 */
import { execFileSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';

import { libc } from '../../lib/ebpf/ffi.ts';

const CLONE_NEWNET = 0x40000000;
const ownNamespace = '/proc/thread-self/ns/net';

/** Why namespaces are unavailable here; undefined if they are available. */
export function namespaceObstacle(): string | undefined {
  if (process.getuid?.() !== 0) return 'needs root, for network namespaces';
  try {
    execFileSync('ip', ['-V'], { stdio: 'ignore' });
  } catch {
    return 'missing packages: apt-get install iproute2';
  }
  return undefined;
}

/** There is one thread, and it is in one namespace at a time. */
let ticking = Promise.resolve();

export class NetworkNamespace implements Disposable {
  readonly fd: number;

  constructor() {
    const outside = openSync(ownNamespace, 'r');
    try {
      if (libc.unshare(CLONE_NEWNET) !== 0) throw new Error('no network namespace: unshare failed');
      this.fd = openSync(ownNamespace, 'r');
      enter(outside);
    } finally {
      closeSync(outside);
    }
  }

  /** The path that `ip` accepts in place of a namespace's name. */
  get path(): string {
    return `/proc/${process.pid}/fd/${this.fd}`;
  }

  /** Sockets and processes that `work` makes are of this namespace, and stay it. Nothing may be awaited in it. */
  run<T>(work: () => T): T {
    const outside = openSync(ownNamespace, 'r');
    try {
      enter(this.fd);
      return work();
    } finally {
      enter(outside);
      closeSync(outside);
    }
  }

  /**
   * As {@link run}, until what Node does on the next ticks is done too: there connect(2) is. They are all run before anything else is, so
   * that whoever else connects is where he should be. One after the other, in the order in which they are asked for.
   */
  async runTick<T>(work: () => T): Promise<T> {
    const before = ticking;
    const done = Promise.withResolvers<void>();
    ticking = done.promise;
    await before;
    const outside = openSync(ownNamespace, 'r');
    try {
      enter(this.fd);
      const result = work();
      await new Promise<void>((resolve) => process.nextTick(resolve));
      return result;
    } finally {
      enter(outside);
      closeSync(outside);
      done.resolve();
    }
  }

  /** The lines as commands of `ip`. */
  ip(...lines: readonly string[]): void {
    this.run(() => execFileSync('ip', ['-batch', '-'], { input: `${lines.join('\n')}\n` }));
  }

  nft(commands: string): string {
    return this.run(() => execFileSync('nft', ['-f', '-'], { input: commands, encoding: 'utf8' }));
  }

  [Symbol.dispose](): void {
    closeSync(this.fd);
  }
}

function enter(fd: number): void {
  if (libc.setns(fd, CLONE_NEWNET) !== 0) throw new Error('setns failed');
}
