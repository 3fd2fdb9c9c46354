/**
 * Which rules of other programs refuse packets too, for the log and `rampart status`. Reading them takes longer
 * than most changes of our own, and may start programs: so nothing waits for it.
 */
import type { Logger } from '../../../lib/telemetry/log.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import type { OtherRules } from './other-rules.ts';

export interface OtherRulesReportOptions {
  readonly read: () => Promise<OtherRules>;
  /** Called after each read that has changed {@link OtherRulesReport.words}. */
  readonly onChange: () => void;
  readonly logger: Pick<Logger, 'warn'>;
  /** Aborts a read, whose rejection is then not reported. */
  readonly signal: AbortSignal;
  readonly clock?: Clock;
}

/** Interval between the starts of two reads. */
const PAUSE_MS = 60_000;

/** Disposing it waits for the current read to end. */
export class OtherRulesReport implements AsyncDisposable {
  readonly #options: OtherRulesReportOptions;
  readonly #clock: Clock;
  #words: string | undefined;
  /** The number of full syncs of our rules when the last read began. */
  #fullSyncs = 0;
  #beganMs = -Infinity;
  #reading: Promise<void> | undefined;

  constructor(options: OtherRulesReportOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** The report; undefined if no such rules are known. */
  get words(): string | undefined {
    return this.#words;
  }

  /** Call it after each change. It reads once after a full sync, and at most once a minute. */
  look(fullSyncs: number): void {
    const nowMs = this.#clock.monotonicMs();
    if (this.#reading !== undefined || fullSyncs === this.#fullSyncs || nowMs - this.#beganMs < PAUSE_MS)
      return;
    this.#fullSyncs = fullSyncs;
    this.#beganMs = nowMs;
    this.#reading = this.#read().finally(() => (this.#reading = undefined));
  }

  async #read(): Promise<void> {
    const { read, onChange, logger, signal } = this.#options;
    try {
      const { enforcers, dropping } = await read();
      const certain = dropping.filter((chain) => chain.isCertain && chain.hook === 'forward');
      const now = [...enforcers, ...certain.map(({ words }) => words)].join('; ') || undefined;
      if (now === this.#words) return;
      if (now !== undefined) logger.warn(`rules of other programs: ${now}`);
      this.#words = now;
      onChange();
    } catch (error) {
      if (signal.aborted) return;
      logger.warn(
        { err: error },
        'cannot read the rules of other programs; retrying after the next full sync',
      );
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#reading;
  }
}
