/**
 * Folds findings that come too often: the first ones of each minute pass, the others are counted, and the next one that passes carries the
 * count.
 */
import { type Clock, systemClock } from '../../lib/time/clock.ts';

export interface FindingLimiterOptions {
  /** How many findings of each key pass in {@link PERIOD_MS}. Default: 10, as the kernel logs of refused packets. */
  readonly limit?: number;
  readonly clock?: Pick<Clock, 'monotonicMs'>;
}

const PERIOD_MS = 60_000;
const LIMIT = 10;
/** Beyond this number, all keys are forgotten, so that their findings pass again. */
const MAX_KEYS = 4096;

interface Period {
  startMs: number;
  reported: number;
  folded: number;
}

export class FindingLimiter {
  readonly #limit: number;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #periods = new Map<string, Period>();
  /** The number of folded findings of all keys, since the start. */
  folded = 0;

  constructor({ limit = LIMIT, clock = systemClock }: FindingLimiterOptions = {}) {
    this.#limit = limit;
    this.#clock = clock;
  }

  /** If this finding passes, how many of its key were folded since the last one that did; undefined if it is folded. */
  take(key: string): number | undefined {
    const nowMs = this.#clock.monotonicMs();
    let period = this.#periods.get(key);
    if (period === undefined) {
      if (this.#periods.size >= MAX_KEYS) this.#periods.clear();
      this.#periods.set(key, (period = { startMs: nowMs, reported: 0, folded: 0 }));
    } else if (nowMs - period.startMs >= PERIOD_MS) {
      period.startMs = nowMs;
      period.reported = 0;
    }
    if (period.reported >= this.#limit) {
      period.folded++;
      this.folded++;
      return undefined;
    }
    const { folded } = period;
    period.reported++;
    period.folded = 0;
    return folded;
  }
}
