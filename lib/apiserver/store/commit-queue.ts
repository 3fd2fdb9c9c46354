/** Group commit: writes that come while a transaction waits for the disk form the next transaction. */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { BatchWriter } from './batch-writer.ts';
import type { StoredObject } from './object.ts';
import type { Outcome, Write } from './writer.ts';

/** Limit of writes in one transaction, so that its first write does not wait for too many others. */
const maxBatchWrites = 512;
const maxBatchSize = 4 * 1024 * 1024;

export type WriteResult = { readonly object: StoredObject } | { readonly error: unknown };

interface Entry {
  readonly write: Write;
  readonly size: number;
  readonly resolve: (object: StoredObject) => void;
  readonly reject: (error: unknown) => void;
}

interface CommitQueueOptions {
  readonly writer: BatchWriter;
  /** Limit of the texts that wait, in UTF-16 units; further writes are refused. */
  readonly maxWaitingSize: number;
  /** Called after each batch is committed, in order, with the result of each write. */
  readonly onCommitted: (writes: readonly Write[], outcomes: readonly Outcome[]) => readonly WriteResult[];
}

/** Hands writes to a writer in batches, one batch at a time. */
export class CommitQueue {
  readonly #options: CommitQueueOptions;
  #entries: Entry[] = [];
  #waitingSize = 0;
  #running: Promise<void> | undefined;

  constructor(options: CommitQueueOptions) {
    this.#options = options;
  }

  /**
   * Resolves when the write is on the disk.
   *
   * @throws why the write was refused; `LIMIT` at once if too much is waiting; `SYSTEM` if the writer has ended.
   */
  submit(write: Write): Promise<StoredObject> {
    const size = write.verb === 'delete' ? 0 : write.before.length + write.after.length;
    const { maxWaitingSize } = this.#options;
    // A single write is accepted whatever its size.
    if (this.#entries.length > 0 && this.#waitingSize + size > maxWaitingSize) {
      throw new RampartError(errorCodes.LIMIT, {
        what: 'cannot accept another write',
        why: `${this.#entries.length} writes with ${this.#waitingSize} characters are waiting for the disk`,
        next: 'Try again later',
      });
    }
    return new Promise((resolve, reject) => {
      this.#entries.push({ write, size, resolve, reject });
      this.#waitingSize += size;
      this.#running ??= this.#run();
    });
  }

  async drained(): Promise<void> {
    while (this.#running !== undefined) await this.#running;
  }

  async #run(): Promise<void> {
    // All writes that arrive in this turn of the event loop go into the first batch.
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    while (this.#entries.length > 0) {
      const batch = this.#take();
      const writes = batch.map((entry) => entry.write);
      try {
        const outcomes = await this.#options.writer.apply(writes);
        const results = this.#options.onCommitted(writes, outcomes);
        for (const [index, result] of results.entries()) {
          if ('object' in result) batch[index]?.resolve(result.object);
          else batch[index]?.reject(result.error);
        }
      } catch (error) {
        for (const entry of batch) entry.reject(error);
      }
    }
    this.#running = undefined;
  }

  #take(): readonly Entry[] {
    let count = 0;
    let size = 0;
    for (const entry of this.#entries) {
      if (count === maxBatchWrites || (count > 0 && size + entry.size > maxBatchSize)) break;
      size += entry.size;
      count++;
    }
    this.#waitingSize -= size;
    return this.#entries.splice(0, count);
  }
}
