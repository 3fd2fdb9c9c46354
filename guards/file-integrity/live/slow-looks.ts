/** Compares paths that take long, one after another, in a thread of its own. */
import { setImmediate as nextTurn } from 'node:timers/promises';

import type { ByteString } from '../model/entry.ts';
import type { ScanRoot } from '../provider/provider.ts';
import { Scanner } from '../scan/scanner.ts';
import type { ChangedPath } from './change-queue.ts';
import { SlowPaths } from './slow-paths.ts';

export interface SlowLooksOptions {
  readonly root: ScanRoot;
  /** Compares a path. Must not throw. */
  readonly look: (change: ChangedPath, looks: SlowLooks) => Promise<void>;
  /** Must be aborted before this is disposed. */
  readonly signal: AbortSignal;
}

/** Disposing it waits for the running comparison. */
export class SlowLooks implements AsyncDisposable {
  readonly scanner: Scanner;
  readonly #options: SlowLooksOptions;
  readonly #paths = new SlowPaths();
  /** Paths that were compared elsewhere since the running comparison started. */
  #later: Set<ByteString> | undefined;
  #running: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: SlowLooksOptions) {
    this.#options = options;
    this.scanner = new Scanner({ root: options.root, workers: 1 });
  }

  /** Number of waiting paths. */
  get size(): number {
    return this.#paths.size;
  }

  add(change: ChangedPath): void {
    this.#paths.add(change);
  }

  /** Call when paths were compared elsewhere: the running comparison's result for them is outdated. */
  lookedAt(paths: readonly ByteString[]): void {
    for (const path of paths) this.#later?.add(path);
  }

  isOutdated(path: ByteString): boolean {
    return this.#later?.has(path) === true;
  }

  wake(): void {
    if (this.#paths.size === 0 || this.#options.signal.aborted) return;
    clearTimeout(this.#timer);
    this.#running ??= this.#run();
  }

  takeAll(): ChangedPath[] {
    return this.#paths.takeAll();
  }

  clear(): void {
    this.#paths.clear();
  }

  async #run(): Promise<void> {
    const { look, signal } = this.#options;
    try {
      // If no path is due yet, the loop ends immediately. It must not end before `#running` is assigned, because `finally`
      // would then clear it too early.
      await nextTurn();
      while (!signal.aborted) {
        const startMs = performance.now();
        const next = this.#paths.take(startMs);
        if (typeof next === 'number') {
          if (next === Infinity) return;
          this.#timer = setTimeout(() => this.wake(), next - startMs);
          this.#timer.unref();
          return;
        }
        this.#later = new Set();
        await look(next, this);
        this.#later = undefined;
        const endMs = performance.now();
        this.#paths.looked(next.path, endMs - startMs, endMs);
        await nextTurn();
      }
    } finally {
      this.#running = undefined;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#timer);
    await this.#running;
    await this.scanner[Symbol.asyncDispose]();
  }
}
