/**
 * The level at which a retried failure is logged: everyday failures and repetitions only at `debug`.
 * Everything is counted in the metrics.
 */
import type { Clock } from '../../time/clock.ts';
import { isAlreadyExists, isConflict, isUnreachable } from './client-errors.ts';

/** From this many conflicts in a row on, two clients probably fight over the object; fewer are everyday. */
const CONFLICTS = 5;
/** The least time between two reports of an unreachable API: every request fails then. */
const AWAY_MS = 60_000;

/** @param retries how often the same has failed in a row before. */
export type FailureLevel = (error: unknown, retries: number) => 'debug' | 'warn';

/** Create one for each part of the program that retries. */
export function failureLevels(clock: Clock): FailureLevel {
  let reportedAwayMs = -Infinity;

  return (error, retries) => {
    if (isConflict(error) || isAlreadyExists(error)) return retries < CONFLICTS ? 'debug' : 'warn';
    if (!isUnreachable(error)) return 'warn';
    const nowMs = clock.monotonicMs();
    if (nowMs - reportedAwayMs < AWAY_MS) return 'debug';
    reportedAwayMs = nowMs;
    return 'warn';
  };
}
