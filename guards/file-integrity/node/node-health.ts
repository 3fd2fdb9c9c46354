import type { PartHealth } from '../../../guard/context.ts';
import type { Clock } from '../../../lib/time/clock.ts';
import type { NodeCounts } from './node-counts.ts';

/** A disk that has not answered a read for this long is not going to. */
const stuckMs = 15 * 60_000;

/** Detects a step that makes no progress. */
export class StepWatch {
  readonly #clock: Clock;
  readonly #counts: Pick<NodeCounts, 'work'>;
  #step: string | undefined;
  #seen = 0;
  #sinceMs = 0;

  /** @param counts their `work` increases while a scan makes progress */
  constructor(clock: Clock, counts: Pick<NodeCounts, 'work'>) {
    this.#clock = clock;
    this.#counts = counts;
  }

  /** Call with the step that begins, and with undefined when it has ended. */
  set(step: string | undefined): void {
    this.#step = step;
    this.#sinceMs = this.#clock.monotonicMs();
  }

  /** Call at intervals; returns the problem, if there is one. */
  problem(): string | undefined {
    const nowMs = this.#clock.monotonicMs();
    const { work } = this.#counts;
    if (this.#step === undefined || work !== this.#seen) {
      this.#seen = work;
      this.#sinceMs = nowMs;
      return undefined;
    }
    const forMs = nowMs - this.#sinceMs;
    return forMs < stuckMs
      ? undefined
      : `"${this.#step}" has made no progress for ${Math.floor(forMs / 1000)} s`;
  }
}

export interface NodeParts {
  /** Whether it is known which FileIntegrities are for this node. */
  readonly looked: () => boolean;
  readonly steps: StepWatch;
}

export function registerNodeHealth(health: PartHealth, { looked, steps }: NodeParts): void {
  health.ready('jobs', () => (looked() ? undefined : 'not examined yet'));
  health.alive('scan', () => steps.problem());
}
