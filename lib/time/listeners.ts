/** Functions that are called each time something happens, until their subscription is disposed. */
export class Listeners<A extends readonly unknown[] = []> {
  readonly #listeners = new Set<(...args: A) => void>();

  /** The same function may be added more than once: each subscription is one of its own. */
  add(listener: (...args: A) => void): Disposable {
    const own = (...args: A): void => listener(...args);
    this.#listeners.add(own);
    return { [Symbol.dispose]: () => void this.#listeners.delete(own) };
  }

  /** @throws what a listener throws; the others are not called then */
  notify(...args: A): void {
    for (const listener of this.#listeners) listener(...args);
  }
}
