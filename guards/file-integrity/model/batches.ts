/** Streams of many small items in batches: one step of an asynchronous iterator costs more than handling an item. */

/** One or more encoded items, decoded on demand. */
export interface PackedBatch<T> extends Iterable<T> {
  readonly length: number;
  unpack(): readonly T[];
}

export type Batch<T> = readonly T[] | PackedBatch<T>;

export function unpack<T>(batch: Batch<T>): readonly T[] {
  return 'unpack' in batch ? batch.unpack() : batch;
}

/** Any number of batches of any size; batches may be empty. */
export type Batches<T> = AsyncIterable<Batch<T>> | Iterable<Batch<T>>;

/** Iterates over the items of batches, and waits only between batches. */
export class BatchCursor<T> implements AsyncDisposable {
  readonly #batches: AsyncIterator<Batch<T>> | Iterator<Batch<T>>;
  #batch: Batch<T> = [];
  #things: readonly T[] | undefined;
  #at = 0;
  #over = false;

  constructor(batches: Batches<T>) {
    this.#batches =
      Symbol.asyncIterator in batches ? batches[Symbol.asyncIterator]() : batches[Symbol.iterator]();
  }

  /** The item to which {@link advance} moved; undefined before the first and after the last one. */
  current: T | undefined = undefined;

  /** The current batch, if {@link advance} has moved to its first item at most; otherwise undefined. */
  get whole(): Batch<T> | undefined {
    return this.#over || this.#at > 1 ? undefined : this.#batch;
  }

  /**
   * Moves to the next item of the batch, without waiting. Returns false at the end of the batch: call {@link load} or
   * {@link fetch} then.
   */
  advance(): boolean {
    this.#things ??= unpack(this.#batch);
    if (this.#at >= this.#things.length) return false;
    this.current = this.#things[this.#at++];
    return true;
  }

  /** Loads the next batch and moves to its first item. Returns false at the end of the stream, where `current` is undefined. */
  async fetch(): Promise<boolean> {
    return (await this.load()) && this.advance();
  }

  /**
   * Skips the rest of this batch and loads the next one that is not empty, without decoding it. Returns false at the
   * end of the stream.
   */
  async load(): Promise<boolean> {
    while (!this.#over) {
      const { done, value } = await this.#batches.next();
      if (done === true) break;
      if (!('unpack' in value) && value.length === 0) continue;
      this.#batch = value;
      this.#things = undefined;
      this.#at = 0;
      return true;
    }
    this.#over = true;
    this.#batch = this.#things = [];
    this.current = undefined;
    return false;
  }

  /** Closes the source, unless it was read to its end. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#over) return;
    this.#over = true;
    await this.#batches.return?.();
  }
}
