/** Long work on the event loop, in slices. */

/**
 * A share of each turn of the event loop, for all who hold the same instance: when it is used up, they go on one
 * after the other, one a turn, so that many at once hold up timers and sockets no longer than one alone.
 *
 * @example
 * for (const item of many) {
 *   work(item);
 *   if (loopSlice.over) await loopSlice.next();
 * }
 */
export class LoopSlice {
  readonly #limitMs: number;
  readonly #waiting: (() => void)[] = [];
  /** Start of this turn's share; undefined while it is unused. */
  #beganMs: number | undefined;
  #armed = false;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  /** Whether this turn's share is used up: wait for `next` then. The first to ask in a turn begins it. */
  get over(): boolean {
    const nowMs = performance.now();
    if (this.#beganMs === undefined) {
      this.#beganMs = nowMs;
      this.#arm();
      return false;
    }
    return nowMs - this.#beganMs >= this.#limitMs;
  }

  /** Resolves in a later turn of the loop, when it is the caller's. That is soon, so it takes no signal. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#arm();
    });
  }

  #arm(): void {
    if (this.#armed) return;
    this.#armed = true;
    setImmediate(() => {
      this.#armed = false;
      const resolve = this.#waiting.shift();
      this.#beganMs = resolve === undefined ? undefined : performance.now();
      if (resolve === undefined) return;
      resolve();
      this.#arm();
    });
  }
}

/** The share of all reflectors of the process. */
export const loopSlice = new LoopSlice(5);
