/**
 * Streams of many small things, handed on in batches: a step of an asynchronous iterator costs more than the thing.
 */

/** At least one thing, as bytes; decoded on demand. */
export interface PackedBatch<T> extends Iterable<T> {
  readonly length: number;
  unpack(): readonly T[];
}

export type Batch<T> = readonly T[] | PackedBatch<T>;

export function unpack<T>(batch: Batch<T>): readonly T[] {
  return 'unpack' in batch ? batch.unpack() : batch;
}

/** Any number of batches of any size, also empty ones. */
export type Batches<T> = AsyncIterable<Batch<T>> | Iterable<Batch<T>>;

/** Reads batches one thing at a time, waiting only where a batch ends. */
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

  /** The thing that {@link advance} came to; undefined before the first and after the last. */
  current: T | undefined = undefined;

  /** The batch, as long as {@link advance} came to none but its first thing. */
  get whole(): Batch<T> | undefined {
    return this.#over || this.#at > 1 ? undefined : this.#batch;
  }

  /** Goes to the next thing without waiting; false where {@link load} has to be called first, or all is read. */
  advance(): boolean {
    this.#things ??= unpack(this.#batch);
    if (this.#at >= this.#things.length) return false;
    this.current = this.#things[this.#at++];
    return true;
  }

  /** Gets the next batch and goes to its first thing; false at the end, when `current` is undefined. */
  async fetch(): Promise<boolean> {
    return (await this.load()) && this.advance();
  }

  /** Gets the next batch that has something, whatever is left of this one, and does not unpack it; else as {@link fetch}. */
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

  /** Closes a source that was not read to its end. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#over) return;
    this.#over = true;
    await this.#batches.return?.();
  }
}
