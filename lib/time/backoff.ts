import { errorCodes, RampartError } from '../errors/errors.ts';

export interface BackoffOptions {
  readonly baseMs: number;
  readonly maxMs: number;
  /** The share of each delay taken off at random, so that not all come back together. 0 to 1; default 0.1. */
  readonly jitter?: number;
  /** From 0 up to but not 1. Default: Math.random. */
  readonly random?: () => number;
}

const DEFAULT_JITTER = 0.1;

/**
 * The delay before try number `attempt` + 1 (0 is the first failure): base, 2 base, 4 base, ... up to the
 * longest, less jitter.
 */
export function backoffDelayMs(attempt: number, options: BackoffOptions): number {
  const { baseMs, maxMs, jitter = DEFAULT_JITTER, random = Math.random } = options;
  // 2 ** 1024 is Infinity, and 0 * Infinity not a number.
  const wholeMs = Math.min(maxMs, baseMs * 2 ** Math.min(attempt, 1000));
  return wholeMs * (1 - jitter * random());
}

/** @throws {RampartError} `INPUT` for options that cannot work. */
export function checkBackoff(options: BackoffOptions): void {
  const { baseMs, maxMs, jitter = DEFAULT_JITTER } = options;
  if (baseMs >= 0 && maxMs >= baseMs && jitter >= 0 && jitter <= 1) return;
  throw new RampartError(errorCodes.INPUT, {
    what: `backoff with baseMs ${baseMs}, maxMs ${maxMs}, jitter ${jitter}`,
    why: 'expected 0 <= baseMs <= maxMs and 0 <= jitter <= 1',
  });
}

/**
 * The backoff of one thing that is tried again and again, e.g. a watch.
 *
 * @example
 * const backoff = new Backoff({ baseMs: 100, maxMs: 30_000 });
 * while (!signal.aborted) {
 *   try {
 *     await follow(signal, () => backoff.reset());
 *   } catch (error) {
 *     logger.warn({ err: error }, 'following broke');
 *   }
 *   await sleep(systemClock, backoff.nextMs(), signal);
 * }
 */
export class Backoff {
  readonly #options: BackoffOptions;
  #attempts = 0;

  /** @throws {RampartError} `INPUT` for options that cannot work. */
  constructor(options: BackoffOptions) {
    checkBackoff(options);
    this.#options = options;
  }

  /** Failures since the last reset. */
  get attempts(): number {
    return this.#attempts;
  }

  /** Counts a failure. @returns how long to wait now, in milliseconds */
  nextMs(): number {
    return backoffDelayMs(this.#attempts++, this.#options);
  }

  /** Call after a success. */
  reset(): void {
    this.#attempts = 0;
  }
}

/** A backoff for each key. A key takes memory from its first failure until `forget`. */
export class KeyedBackoff<K> {
  readonly #options: BackoffOptions;
  readonly #attempts = new Map<K, number>();

  /** @throws {RampartError} `INPUT` for options that cannot work. */
  constructor(options: BackoffOptions) {
    checkBackoff(options);
    this.#options = options;
  }

  /** Counts a failure of `key`. @returns how long to wait now, in milliseconds */
  nextMs(key: K): number {
    const attempt = this.#attempts.get(key) ?? 0;
    this.#attempts.set(key, attempt + 1);
    return backoffDelayMs(attempt, this.#options);
  }

  /** Failures of `key` since it was last forgotten. */
  attempts(key: K): number {
    return this.#attempts.get(key) ?? 0;
  }

  /** Call it after a success, or when the key is gone for good. */
  forget(key: K): void {
    this.#attempts.delete(key);
  }

  get size(): number {
    return this.#attempts.size;
  }
}
