/** Answers that are good for a short time. */
import { type Clock, systemClock } from '../../lib/time/clock.ts';

interface RecentAnswersOptions {
  readonly forMs: number;
  /** Beyond it, the oldest is forgotten. */
  readonly most: number;
  readonly clock?: Pick<Clock, 'monotonicMs'>;
}

interface Asked<Answer> {
  readonly answer: Promise<Answer>;
  readonly untilMs: number;
  isPending: boolean;
}

export class RecentAnswers<Answer> {
  readonly #options: RecentAnswersOptions;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  /** The oldest first. */
  readonly #known = new Map<string, Asked<Answer>>();

  constructor(options: RecentAnswersOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  get size(): number {
    return this.#known.size;
  }

  /** Asks once for all who want to know at a time. A failure is not kept. @throws what `ask` throws */
  get(key: string, ask: () => Promise<Answer>): Promise<Answer> {
    const { forMs, most } = this.#options;
    const known = this.#known.get(key);
    const nowMs = this.#clock.monotonicMs();
    if (known !== undefined && (known.isPending || nowMs < known.untilMs)) return known.answer;
    this.#known.delete(key);
    // From when it was asked: what has changed since may not be in the answer.
    const asked: Asked<Answer> = { answer: ask(), untilMs: nowMs + forMs, isPending: true };
    this.#known.set(key, asked);
    asked.answer.then(
      () => (asked.isPending = false),
      () => {
        if (this.#known.get(key) === asked) this.#known.delete(key);
      },
    );
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= most) break;
      this.#known.delete(oldest);
    }
    return asked.answer;
  }
}
