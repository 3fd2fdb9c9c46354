/** One at a time for each key, in order of arrival. */
import { orAborted } from '../time/abort.ts';

export class KeyedLock {
  readonly #tails = new Map<string, Promise<void>>();

  /** Resolves when it is the caller's turn; the caller disposes the result. Rejects with the signal's reason. */
  async take(key: string, signal?: AbortSignal): Promise<Disposable> {
    signal?.throwIfAborted();
    const before = this.#tails.get(key);
    const { promise, resolve } = Promise.withResolvers<void>();
    const tail = before === undefined ? promise : before.then(() => promise);
    this.#tails.set(key, tail);
    void tail.then(() => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    });
    if (before !== undefined) {
      try {
        await orAborted(before, signal);
      } catch (error) {
        // Later ones still wait for earlier ones.
        resolve();
        throw error;
      }
    }
    return { [Symbol.dispose]: resolve };
  }
}
