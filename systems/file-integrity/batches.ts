/**
 * Streams of many small things, handed on in batches: a step of an asynchronous iterator costs more than the thing.
 *
 * @module
 */

/** Any number of batches of any size, also empty ones. */
export type Batches<T> = AsyncIterable<readonly T[]> | Iterable<readonly T[]>;

/** Reads batches one thing at a time, waiting only where a batch ends. */
export class BatchCursor<T> implements AsyncDisposable {
  readonly #batches: AsyncIterator<readonly T[]> | Iterator<readonly T[]>;
  #batch: readonly T[] = [];
  #at = 0;
  #over = false;

  constructor(batches: Batches<T>) {
    this.#batches =
      Symbol.asyncIterator in batches ? batches[Symbol.asyncIterator]() : batches[Symbol.iterator]();
  }

  /** The thing that {@link advance} came to; undefined before the first and after the last. */
  current: T | undefined = undefined;

  /** Goes to the next thing without waiting; false where {@link fetch} has to be called first, or all is read. */
  advance(): boolean {
    if (this.#at >= this.#batch.length) return false;
    this.current = this.#batch[this.#at++];
    return true;
  }

  /** Gets the next batch and goes to its first thing; false when there is none, and `current` is undefined then. */
  async fetch(): Promise<boolean> {
    while (!this.#over) {
      const { done, value } = await this.#batches.next();
      if (done === true) break;
      this.#batch = value;
      this.#at = 0;
      if (this.advance()) return true;
    }
    this.#over = true;
    this.#batch = [];
    this.current = undefined;
    return false;
  }

  /** Lets go of a source that was not read to its end. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#over) return;
    this.#over = true;
    await this.#batches.return?.();
  }
}
