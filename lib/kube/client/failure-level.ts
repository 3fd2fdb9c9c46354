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

/** @param retries how often the same has failed in a row before. */
export type FailureLevel = (error: unknown, retries: number) => 'debug' | 'warn';

/** One for each part of the program that tries again. */
export function failureLevels(clock: Clock): FailureLevel {
  let toldAwayMs = -Infinity;

  return (error, retries) => {
    if (isConflict(error) || isAlreadyExists(error)) return retries < CONFLICTS ? 'debug' : 'warn';
    if (!isUnreachable(error)) return 'warn';
    const nowMs = clock.monotonicMs();
    if (nowMs - toldAwayMs < AWAY_MS) return 'debug';
    toldAwayMs = nowMs;
    return 'warn';
  };
}
