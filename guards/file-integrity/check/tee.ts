/** Shares one scan between two readers: the comparison, and the writer of the baseline. */
import type { Batch, Batches } from '../model/batches.ts';

/** The reader of `copy` may be at most this many batches behind; then `main` waits. */
const max = 8;

/** `copy` yields each batch that was read from `main`, and fails if `main` was not read to its end. */
export class Tee<T> {
  readonly #source: Batches<T>;
  readonly #waiting: Batch<T>[] = [];
  #wake = Promise.withResolvers<void>();
  #state: 'open' | 'ended' | 'cut' | 'unread' = 'open';

  constructor(source: Batches<T>) {
    this.#source = source;
  }

  async *main(): AsyncGenerator<Batch<T>, void, undefined> {
    try {
      for await (const batch of this.#source) {
        while (this.#waiting.length >= max && this.#state === 'open') await this.#change();
        if (this.#state === 'open') this.#waiting.push(batch);
        this.#changed();
        yield batch;
      }
      if (this.#state === 'open') this.#state = 'ended';
    } finally {
      if (this.#state === 'open') this.#state = 'cut';
      this.#changed();
    }
  }

  async *copy(): AsyncGenerator<Batch<T>, void, undefined> {
    try {
      for (;;) {
        const batch = this.#waiting.shift();
        if (batch !== undefined) {
          this.#changed();
          yield batch;
        } else if (this.#state === 'ended') return;
        else if (this.#state === 'cut') throw new Error('the scan was aborted');
        else await this.#change();
      }
    } finally {
      // `copy` will not be read any further, so the reader of `main` must not wait for it.
      if (this.#state === 'open') this.#state = 'unread';
      this.#waiting.length = 0;
      this.#changed();
    }
  }

  #changed(): void {
    this.#wake.resolve();
    this.#wake = Promise.withResolvers();
  }

  #change(): Promise<void> {
    return this.#wake.promise;
  }
}
