/** A token bucket: a steady rate per second, and a burst after a pause. */
import { errorCodes, RampartError } from '../errors/errors.ts';
import { type Clock, sleep, systemClock } from './clock.ts';

export interface RateLimitOptions {
  /** Long-term rate. `Infinity` limits nothing. */
  readonly perSecond: number;
  /** How many may pass at once after a pause. At least 1. */
  readonly burst: number;
  readonly clock?: Clock;
}

/** First come, first served: every caller takes the next token, even a future one. */
export class TokenBucket {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #clock: Clock;
  /** Negative if future tokens are already taken. */
  #tokens: number;
  #countedMs: number;

  /** @throws {RampartError} `INPUT` for a rate that is not above 0 or a burst below 1. */
  constructor({ perSecond, burst, clock = systemClock }: RateLimitOptions) {
    if (!(perSecond > 0) || !(burst >= 1)) {
      throw new RampartError(errorCodes.INPUT, {
        what: `rate limit of ${perSecond} per second with a burst of ${burst}`,
        why: 'the rate must be above 0 and the burst at least 1',
      });
    }
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#clock = clock;
    this.#tokens = burst;
    this.#countedMs = clock.monotonicMs();
  }

  /** Takes the next token. @returns the milliseconds until it is available */
  reserveMs(): number {
    if (this.#perSecond === Infinity) return 0;
    this.#count();
    this.#tokens--;
    return this.#tokens >= 0 ? 0 : (-this.#tokens / this.#perSecond) * 1000;
  }

  /** Returns a reserved token that was not used. */
  giveBack(): void {
    this.#count();
    this.#tokens = Math.min(this.#burst, this.#tokens + 1);
  }

  /** Takes a token only if one is available now. */
  tryTake(): boolean {
    if (this.#perSecond === Infinity) return true;
    this.#count();
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }

  /**
   * Waits for a token. Returns how long that took, in milliseconds; 0 if one was available.
   *
   * @throws the signal's reason when it aborts; the token is given back then.
   */
  async take(signal?: AbortSignal): Promise<number> {
    signal?.throwIfAborted();
    const delayMs = this.reserveMs();
    if (delayMs === 0) return 0;
    try {
      await sleep(this.#clock, delayMs, signal);
    } catch (error) {
      this.giveBack();
      throw error;
    }
    return delayMs;
  }

  #count(): void {
    const nowMs = this.#clock.monotonicMs();
    const gained = ((nowMs - this.#countedMs) / 1000) * this.#perSecond;
    this.#tokens = Math.min(this.#burst, this.#tokens + gained);
    this.#countedMs = nowMs;
  }
}
