/** Limits concurrent requests over all callbacks. */

/**
 * Callbacks whose last try failed get at most half of the places: receivers that hang until the timeout cannot keep
 * the others waiting.
 */
export class Slots {
  readonly #limit: number;
  readonly #troubledLimit: number;
  #used = 0;
  #troubledUsed = 0;
  readonly #waiting: { readonly calm: (() => void)[]; readonly troubled: (() => void)[] } = {
    calm: [],
    troubled: [],
  };

  constructor(limit: number) {
    this.#limit = limit;
    this.#troubledLimit = Math.max(1, Math.floor(limit / 2));
  }

  /** Waits for a place, in the order of the calls. Dispose what it resolves with. */
  async acquire(troubled: boolean): Promise<Disposable> {
    if (!this.#free(troubled)) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting[troubled ? 'troubled' : 'calm'].push(resolve);
      await promise;
    } else {
      this.#take(troubled);
    }
    return { [Symbol.dispose]: () => this.#release(troubled) };
  }

  #free(troubled: boolean): boolean {
    return this.#used < this.#limit && (!troubled || this.#troubledUsed < this.#troubledLimit);
  }

  #take(troubled: boolean): void {
    this.#used++;
    if (troubled) this.#troubledUsed++;
  }

  #release(troubled: boolean): void {
    this.#used--;
    if (troubled) this.#troubledUsed--;
    for (const isTroubled of [false, true]) {
      const queue = this.#waiting[isTroubled ? 'troubled' : 'calm'];
      while (queue.length > 0 && this.#free(isTroubled)) {
        this.#take(isTroubled);
        queue.shift()?.();
      }
    }
  }
}
