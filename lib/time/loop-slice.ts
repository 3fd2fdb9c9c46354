/** Long work on the event loop, in slices. */

/**
 * A time budget for each turn of the event loop, shared by all users of an instance. When it is used up, they continue
 * one after the other, one per turn, so that many of them delay timers and sockets no longer than one alone.
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
  /** When the use of this turn's budget began; undefined while it is unused. */
  #beganMs: number | undefined;
  #armed = false;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  /** Whether this turn's budget is used up: wait for `next` then. The budget's time begins with the first call in a turn. */
  get over(): boolean {
    const nowMs = performance.now();
    if (this.#beganMs === undefined) {
      this.#beganMs = nowMs;
      this.#arm();
      return false;
    }
    return nowMs - this.#beganMs >= this.#limitMs;
  }

  /** Resolves in the later turn of the loop that is the caller's. That is soon, so it takes no signal. */
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

/** The budget shared by all reflectors of the process. */
export const loopSlice = new LoopSlice(5);
