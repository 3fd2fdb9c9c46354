/** A limit per second, shared fairly among keys: a frequent key does not crowd out rare ones. */
import { type Clock, systemClock } from '../../../../lib/time/clock.ts';

interface Use {
  /** Requests in this second. */
  asked: number;
  taken: number;
  /** Requests that were folded since one was accepted. */
  folded: number;
}

export interface FairLimitOptions {
  readonly perSecond: number;
  readonly clock?: Pick<Clock, 'monotonicMs'>;
}

const PERIOD_MS = 1000;
/** If there are more keys, all of them are forgotten. */
const MAX_KEYS = 4096;

/**
 * Each key gets its max-min fair share of the limit, computed from the requests of each key in the previous
 * second: keys with fewer requests than their share leave the rest to the others.
 */
export class FairLimit {
  readonly #perSecond: number;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #uses = new Map<string, Use>();
  #startMs = -Infinity;
  #left = 0;
  #share = 0;

  constructor({ perSecond, clock = systemClock }: FairLimitOptions) {
    this.#perSecond = perSecond;
    this.#clock = clock;
  }

  /** If this request is accepted, how many of its key were folded since the last one that was; undefined if it is folded, too. */
  take(key: string): number | undefined {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#startMs >= PERIOD_MS) this.#begin(nowMs);
    const use = this.#use(key);
    use.asked++;
    if (this.#left === 0 || use.taken >= this.#share) {
      use.folded++;
      return undefined;
    }
    const { folded } = use;
    this.#left--;
    use.taken++;
    use.folded = 0;
    return folded;
  }

  #use(key: string): Use {
    let use = this.#uses.get(key);
    if (use === undefined) {
      if (this.#uses.size >= MAX_KEYS) this.#uses.clear();
      this.#uses.set(key, (use = { asked: 0, taken: 0, folded: 0 }));
    }
    return use;
  }

  #begin(nowMs: number): void {
    // Requests before the previous second say nothing about this one.
    const isNext = nowMs - this.#startMs < 2 * PERIOD_MS;
    this.#startMs = nowMs;
    this.#left = this.#perSecond;
    this.#share = isNext
      ? fairShare(
          [...this.#uses.values()].map(({ asked }) => asked),
          this.#left,
        )
      : this.#left;
    for (const [key, use] of this.#uses) {
      if (use.asked === 0 && use.folded === 0) this.#uses.delete(key);
      use.asked = 0;
      use.taken = 0;
    }
  }
}

/** The share of each key: the highest for which the sum of what all keys use stays within the limit; at least 1. */
function fairShare(asked: readonly number[], limit: number): number {
  let left = limit;
  for (const [at, count] of asked.toSorted((a, b) => a - b).entries()) {
    const share = Math.floor(left / (asked.length - at));
    if (count > share) return Math.max(1, share);
    left -= count;
  }
  return limit;
}
