/**
 * Folds findings that come too often: the first ones of a minute pass, the others are counted, and the next
 * one has the count.
 */
import { type Clock, systemClock } from '../../lib/time/clock.ts';

export interface FindingLimiterOptions {
  /** Told of each key in {@link PERIOD_MS}. Default: 10, as the kernel logs of refused packets. */
  readonly limit?: number;
  readonly clock?: Pick<Clock, 'monotonicMs'>;
}

const PERIOD_MS = 60_000;
const LIMIT = 10;
/** Beyond it, all are forgotten, and may pass once more. */
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
  /** In all, since the start. */
  folded = 0;

  constructor({ limit = LIMIT, clock = systemClock }: FindingLimiterOptions = {}) {
    this.#limit = limit;
    this.#clock = clock;
  }

  /**
   * How many of this key were folded since the last one, if this one passes; undefined: it is folded, too.
   */
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
