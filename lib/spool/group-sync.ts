/**
 * Syncs written data to the disk, many records at a time, while the writer goes on.
 *
 * However the process ends, it loses nothing that was written: the kernel has it. A loss of power or a crash of the
 * kernel loses what was written since the last round began: during an interval and the time of a round.
 */
import { open } from 'node:fs/promises';

import type { Clock } from '../time/clock.ts';
import type { Segment } from './segment.ts';

export interface GroupSyncOptions {
  readonly directory: string;
  readonly intervalMs: number;
  readonly clock: Clock;
  /** Called when a sync has failed. The kernel may have dropped the pages; nothing can be done but report it. */
  readonly failed: (error: NodeJS.ErrnoException) => void;
}

/** Rounds of fdatasync(2), with an interval between the end of one and the beginning of the next. The owner disposes it. */
export class GroupSync implements AsyncDisposable {
  readonly #options: GroupSyncOptions;
  #dirty = new Set<Segment>();
  #newFiles = false;
  #cancel: (() => void) | undefined;
  #round: Promise<void> | undefined;
  #disposed = false;

  constructor(options: GroupSyncOptions) {
    this.#options = options;
  }

  /** Marks a file that has new records. */
  touch(segment: Segment, isNew: boolean): void {
    this.#dirty.add(segment);
    this.#newFiles ||= isNew;
    if (this.#cancel === undefined && this.#round === undefined) this.#schedule();
  }

  /** Resolves when all that was written before the call is on disk. */
  async settle(): Promise<void> {
    await this.#round;
    this.#cancel?.();
    this.#cancel = undefined;
    await this.#start();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.settle();
    this.#disposed = true;
    this.#cancel?.();
  }

  #schedule(): void {
    if (this.#disposed) return;
    const { clock, intervalMs } = this.#options;
    this.#cancel = clock.schedule(intervalMs, () => {
      this.#cancel = undefined;
      void this.#start();
    });
  }

  #start(): Promise<void> {
    this.#round ??= this.#run().finally(() => {
      this.#round = undefined;
      if (this.#dirty.size > 0 && this.#cancel === undefined) this.#schedule();
    });
    return this.#round;
  }

  async #run(): Promise<void> {
    const segments = this.#dirty;
    const newFiles = this.#newFiles;
    this.#dirty = new Set();
    this.#newFiles = false;
    // Files are synced one after the other: a slow disk should occupy one thread of the pool, not all.
    for (const segment of segments) {
      const error = await segment.sync();
      if (error !== null) this.#options.failed(error);
    }
    if (newFiles) await this.#syncDirectory();
  }

  async #syncDirectory(): Promise<void> {
    try {
      await using directory = await open(this.#options.directory);
      await directory.sync();
    } catch (error) {
      this.#options.failed(error as NodeJS.ErrnoException);
    }
  }
}
