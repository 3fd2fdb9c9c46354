/**
 * Shared by the tests of the path tracker: a fresh directory, an identity from stat, and waiting for a state.
 */
import { fstatSync, readdirSync, readlinkSync } from 'node:fs';

import type { RampartError } from '../../errors/errors.ts';
import type { FileIdentity } from '../access.ts';
import { trackPaths, type PathState, type TrackedPath, type PathTracker } from './path-tracker.ts';
import { patience } from '../../testing/until.fixture.ts';

/** stat's st_dev (include/linux/kdev_t.h, new_encode_dev) as the kernel's dev_t, major << 20 | minor. */
export function kernelDevice(stDev: bigint): number {
  const major = (stDev >> 8n) & 0xfffn;
  const minor = (stDev & 0xffn) | ((stDev >> 12n) & 0xfff00n);
  return Number((major << 20n) | minor);
}

/** Right where st_dev is the superblock's device: tmpfs, ext4, not btrfs. */
export function identifyByStat(fd: number): FileIdentity {
  const stat = fstatSync(fd, { bigint: true });
  return { inode: stat.ino, device: kernelDevice(stat.dev), generation: 0 };
}

/** Which anonymous descriptors of a kind this process has: "inotify", "[eventpoll]", "[pidfd]". */
export function anonymousFds(kind: string): number {
  let count = 0;
  for (const fd of readdirSync('/proc/self/fd')) {
    try {
      if (readlinkSync(`/proc/self/fd/${fd}`) === `anon_inode:${kind}`) count += 1;
    } catch {
      // The descriptor of the listing itself is gone by now.
    }
  }
  return count;
}

/** A state as one word for assertions: "file", "absent /a", "unusable". */
export function describe(state: PathState | undefined): string {
  if (state?.kind === 'absent') return `absent ${state.missing}`;
  return state?.kind ?? 'none';
}

/** A tracker that remembers its reports and lets tests wait for a state. */
export class Tracking implements Disposable {
  readonly tracker: PathTracker;
  readonly states = new Map<string, PathState>();
  readonly problems: RampartError[] = [];
  changes = 0;
  #waiting: (() => void)[] = [];

  constructor(root: string, paths: readonly string[], identify = identifyByStat) {
    this.tracker = trackPaths({
      paths: paths.map((path) => ({ path, root })),
      identify,
      onChange: (path: TrackedPath, now: PathState) => {
        this.states.set(path.path, now);
        this.changes += 1;
        this.wake();
      },
      onProblem: (problem) => {
        this.problems.push(problem);
        this.wake();
      },
    });
  }

  wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  /** The state of a path as a word. */
  word(path: string): string {
    return describe(this.states.get(path));
  }

  inode(path: string): bigint | undefined {
    const state = this.states.get(path);
    return state?.kind === 'file' ? state.identity.inode : undefined;
  }

  /** Resolves when `holds` does; asks after each change and problem. */
  async until(holds: () => boolean): Promise<void> {
    const signal = patience();
    while (!holds()) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      this.#waiting.push(resolve);
      const onAbort = (): void => {
        const states = [...this.states].map(([path, state]) => `${path}: ${describe(state)}`);
        reject(new Error(`waited in vain for ${String(holds)}; states: ${states.join(', ')}`));
      };
      signal.addEventListener('abort', onAbort, { once: true });
      await promise;
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** Resolves when the path's state is described so. */
  async untilWord(path: string, word: string): Promise<void> {
    await this.until(() => this.word(path) === word);
  }

  /** Resolves when the path leads to the file that `host`, a path of this machine, is. */
  async untilIs(path: string, inode: bigint): Promise<void> {
    await this.until(() => this.inode(path) === inode);
  }

  [Symbol.dispose](): void {
    this.tracker[Symbol.dispose]();
  }
}
