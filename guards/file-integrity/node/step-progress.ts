/** The progress of a baseline or a scan, for `rampart status`. */
import type { Clock } from '../../../lib/time/clock.ts';
import type { Progress } from '../results/node-facts.ts';
import type { NodeCounts } from './node-counts.ts';

interface Started {
  readonly object: string;
  readonly step: Progress['step'];
  readonly wallMs: number;
  readonly monotonicMs: number;
  readonly files: number;
}

export class StepProgress {
  readonly #counts: Pick<NodeCounts, 'files'>;
  readonly #clock: Clock;
  #started: Started | undefined;

  constructor(counts: Pick<NodeCounts, 'files'>, clock: Clock) {
    this.#counts = counts;
    this.#clock = clock;
  }

  /** @param object - `namespace/name` of the FileIntegrity. */
  begin(step: Progress['step'] | 'look' | undefined, object = ''): void {
    this.#started =
      step === undefined || step === 'look'
        ? undefined
        : {
            ...{ object, step, files: this.#counts.files },
            wallMs: this.#clock.wallMs(),
            monotonicMs: this.#clock.monotonicMs(),
          };
  }

  now(): Progress | undefined {
    if (this.#started === undefined) return undefined;
    const { object, step, wallMs, monotonicMs, files } = this.#started;
    const entries = this.#counts.files - files;
    const seconds = (this.#clock.monotonicMs() - monotonicMs) / 1000;
    const entriesPerSecond = seconds > 0 ? Math.round(entries / seconds) : 0;
    return { object, step, since: new Date(wallMs).toISOString(), entries, entriesPerSecond };
  }
}
