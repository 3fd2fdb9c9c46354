/** When to repeat work that no event triggers: retries, and work that comes in bursts. */
import { Backoff } from '../../time/backoff.ts';

/** Things to try again, after growing delays. Delete a thing when it is tried, and add it again if it fails. */
export class Retries<T> implements Disposable {
  readonly #things = new Set<T>();
  readonly #again: (things: readonly T[]) => void;
  readonly #backoff: Backoff;
  #timer: NodeJS.Timeout | undefined;

  constructor(firstMs: number, lastMs: number, again: (things: readonly T[]) => void) {
    this.#backoff = new Backoff({ baseMs: firstMs, maxMs: lastMs });
    this.#again = again;
  }

  get size(): number {
    return this.#things.size;
  }

  add(thing: T): void {
    this.#things.add(thing);
  }

  delete(thing: T): void {
    this.#things.delete(thing);
  }

  /** Call it after a round of tries: schedules the next round or, if nothing is left, resets the delay to the first. */
  settle(): void {
    if (this.#timer !== undefined) return;
    if (this.#things.size === 0) {
      this.#backoff.reset();
      return;
    }
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#again([...this.#things]);
    }, this.#backoff.nextMs());
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#things.clear();
  }
}

/** How much longer than the work of a burst the pause after it is: after work of 10 ms, 40 ms. */
const REST_PER_WORK = 4;

/**
 * Gathers keys and starts the work for all of them: at once when there was rest before, otherwise
 * after a pause that grows with the time the last work took.
 */
export class Burst<K> implements Disposable {
  readonly #keys = new Set<K>();
  readonly #start: (keys: ReadonlySet<K>) => void;
  readonly #pauseMs: number;
  #timer: NodeJS.Timeout | undefined;
  #startedMs: number | undefined;
  #notBeforeMs = 0;

  constructor(pauseMs: number, start: (keys: ReadonlySet<K>) => void) {
    this.#pauseMs = pauseMs;
    this.#start = start;
  }

  add(key: K): void {
    this.#keys.add(key);
    // If the work is running, its end sets the timer.
    if (this.#timer !== undefined || this.#startedMs !== undefined) return;
    const waitMs = this.#notBeforeMs - performance.now();
    if (waitMs <= 0) this.#flush();
    else this.#timer = setTimeout(() => this.#flush(), waitMs);
  }

  delete(key: K): void {
    this.#keys.delete(key);
  }

  #flush(): void {
    this.#timer = undefined;
    this.#startedMs = performance.now();
    const keys = new Set(this.#keys);
    this.#keys.clear();
    this.#start(keys);
  }

  /** Call when the work that was started is done; without one it does nothing. */
  done(): void {
    if (this.#startedMs === undefined) return;
    const now = performance.now();
    const pauseMs = Math.max(this.#pauseMs, REST_PER_WORK * (now - this.#startedMs));
    this.#startedMs = undefined;
    this.#notBeforeMs = now + pauseMs;
    if (this.#keys.size > 0) this.#timer = setTimeout(() => this.#flush(), pauseMs);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#keys.clear();
  }
}
