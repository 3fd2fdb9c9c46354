import { type Clock, systemClock } from '../../time/clock.ts';

/** So few that a thousand processes fit into what a server has for connections it has not accepted yet. */
const AT_A_TIME = 4;
const HOLD_MS = 1000;

/**
 * How many lists and watches a process begins at the same time, over all its reflectors.
 *
 * When a server comes back, all reflectors of all processes ask at once. A process that waits for some answers before it asks
 * for more asks as fast as the server answers: a single one loses nothing, and many do not pile up.
 */
export class OpeningGate {
  readonly #clock: Clock;
  readonly #waiting = new Set<() => void>();
  #open = 0;

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  /**
   * Resolves when it is the caller's turn, first come, first served. Dispose the turn when the server has answered; after a
   * second the next has its turn anyway, as one resource may be slow for reasons of its own.
   *
   * @throws the signal's reason when it aborts.
   */
  async enter(signal: AbortSignal): Promise<Disposable> {
    signal.throwIfAborted();
    if (this.#open < AT_A_TIME) this.#open++;
    else await this.#turn(signal);
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      cancel();
      const [next] = this.#waiting;
      if (next === undefined) this.#open--;
      else {
        this.#waiting.delete(next);
        next();
      }
    };
    const cancel = this.#clock.schedule(HOLD_MS, end);
    return { [Symbol.dispose]: end };
  }

  /** Until somebody's turn is handed on. */
  async #turn(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const onAbort = (): void => {
      if (this.#waiting.delete(resolve)) reject(signal.reason as Error);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    this.#waiting.add(resolve);
    try {
      await promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }
}
