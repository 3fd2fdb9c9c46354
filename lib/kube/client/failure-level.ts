/**
 * How loud a failure that is tried again is logged: what is everyday, or was said just before, only where somebody asks
 * for the level `debug`. Everything is counted in the metrics.
 */
import type { Clock } from '../../time/clock.ts';
import { isAlreadyExists, isConflict, isUnreachable } from './client-errors.ts';

/** Somebody else has changed the object meanwhile; what goes on for longer is a fight between two. */
const CONFLICTS = 5;
/** An API that is away is told of so often: everything that asks it fails then. */
const AWAY_MS = 60_000;

/** One for each part of the program that tries again. */
export class FailureLevel {
  readonly #clock: Clock;
  #toldAwayMs = -Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param retries how often the same has failed in a row before. */
  of(error: unknown, retries: number): 'debug' | 'warn' {
    if (isConflict(error) || isAlreadyExists(error)) return retries < CONFLICTS ? 'debug' : 'warn';
    if (!isUnreachable(error)) return 'warn';
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#toldAwayMs < AWAY_MS) return 'debug';
    this.#toldAwayMs = nowMs;
    return 'warn';
  }
}
