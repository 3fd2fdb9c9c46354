/** Arriving things, one of which a reader may be waiting for. */

/** A queue with one reader. Nothing that arrived before the reader began to wait is missed. */
export class Inbox<T> {
  readonly #waiting: T[] = [];
  #wake: (() => void) | undefined;
  #closed: Error | undefined;

  push(item: T): void {
    this.#waiting.push(item);
    this.#wake?.();
  }

  /** Nothing more will arrive; a present or later reader gets `reason`. */
  close(reason: Error): void {
    this.#closed ??= reason;
    this.#wake?.();
  }

  /**
   * Takes everything up to the first item that `isLast` accepts, that one included.
   *
   * @throws the reason of `signal` or of {@link Inbox.close}; what was not taken stays.
   */
  async takeUntil(isLast: (item: T) => boolean, signal: AbortSignal): Promise<T[]> {
    for (;;) {
      const last = this.#waiting.findIndex(isLast);
      if (last >= 0) return this.#waiting.splice(0, last + 1);
      signal.throwIfAborted();
      if (this.#closed !== undefined) throw this.#closed;
      await this.#arrival(signal);
    }
  }

  /** Takes everything that has arrived. */
  takeAll(): T[] {
    return this.#waiting.splice(0);
  }

  #arrival(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    signal.addEventListener('abort', () => resolve(), { once: true });
    return promise;
  }
}
