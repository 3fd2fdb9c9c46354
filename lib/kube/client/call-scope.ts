/** The signal of one call: the caller's, and a time limit that can be set again. */
import type { Clock } from '../../time/clock.ts';

/** Aborts when the caller's signal does, or when the time is up. The call disposes it at its end. */
export class CallScope implements Disposable {
  readonly #controller = new AbortController();
  readonly #clock: Clock;
  readonly #outer: AbortSignal | undefined;
  readonly #onAbort = (): void => this.#controller.abort(this.#outer?.reason);
  #cancel: (() => void) | undefined;
  #endsMs = Infinity;

  constructor(clock: Clock, outer: AbortSignal | undefined) {
    this.#clock = clock;
    this.#outer = outer;
    if (outer?.aborted) this.#onAbort();
    else outer?.addEventListener('abort', this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Milliseconds until the time is up; Infinity if there is no limit. */
  get leftMs(): number {
    return this.#endsMs - this.#clock.monotonicMs();
  }

  /** From now on: abort with `reason()` after this time. Replaces an earlier limit. */
  limit(timeMs: number, reason: () => Error): void {
    this.unlimit();
    this.#endsMs = this.#clock.monotonicMs() + timeMs;
    this.#cancel = this.#clock.schedule(timeMs, () => this.#controller.abort(reason()));
  }

  /** No time limit from now on. */
  unlimit(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#endsMs = Infinity;
  }

  [Symbol.dispose](): void {
    this.unlimit();
    this.#outer?.removeEventListener('abort', this.#onAbort);
  }
}
