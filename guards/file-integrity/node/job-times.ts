/** When a job is due: its next scan, and another try of what failed. Times are ms of the monotonic clock. */
import { backoffDelayMs } from '../../../lib/time/backoff.ts';
import type { Clock } from '../../../lib/time/clock.ts';

/** From the FileIntegrity, see `scheduleOf`. */
export interface JobSchedule {
  readonly gracePeriodS: number;
  readonly initialDelayS: number;
}

/** After a failure; the FileIntegrity's own period is the longest. */
const firstRetryMs = 5000;
/** An agent that is started again and again does not scan each time, nor one that loses events. */
const minPeriodMs = 60_000;

export class JobTimes {
  readonly #clock: Clock;
  readonly #schedule: () => JobSchedule;
  readonly #startedMs: number;
  /** When the last scan ended. */
  #checkedMs = -Infinity;
  #failures = 0;
  /** Infinity: no scan is due. */
  checkDueMs = Infinity;
  /** Before it, what failed is not tried again. */
  retryDueMs = -Infinity;

  /** `schedule` is read each time: the FileIntegrity may have changed. */
  constructor(clock: Clock, schedule: () => JobSchedule) {
    this.#clock = clock;
    this.#schedule = schedule;
    this.#startedMs = clock.monotonicMs();
  }

  /** When the first baseline may be made. */
  get firstDueMs(): number {
    return this.#startedMs + this.#schedule().initialDelayS * 1000;
  }

  /** The schedule has changed: pending times become no later than it says. */
  reschedule(): void {
    if (!Number.isFinite(this.checkDueMs)) return;
    this.#checkBy(this.#clock.monotonicMs() + this.#schedule().gracePeriodS * 1000);
  }

  /** Called if there is an earlier baseline. `lastMs` is the wall-clock time when a scan last ended. */
  resumed(lastMs: number | undefined): void {
    const nowMs = this.#clock.monotonicMs();
    const { gracePeriodS } = this.#schedule();
    const sinceMs = Math.max(0, this.#clock.wallMs() - (lastMs ?? -Infinity));
    const periodMs = Math.min(gracePeriodS * 1000, minPeriodMs);
    this.#checkBy(Math.max(this.firstDueMs, nowMs - Math.min(sinceMs, periodMs) + periodMs));
  }

  /** Changes may have been missed. If that happens all the time, scans must not follow one another without a pause. */
  checkSoon(): void {
    this.#checkBy(Math.max(this.#clock.monotonicMs(), this.#checkedMs + minPeriodMs));
  }

  checked(): void {
    this.#checkedMs = this.#clock.monotonicMs();
  }

  succeededFirst(): void {
    const { initialDelayS, gracePeriodS } = this.#schedule();
    this.#succeeded(initialDelayS > 0 ? Math.min(initialDelayS, gracePeriodS) : gracePeriodS);
  }

  /** A scan, or a baseline in the place of another. */
  succeeded(): void {
    this.#succeeded(this.#schedule().gracePeriodS);
  }

  /** Returns when to try again: later each time. */
  failed(): number {
    const { gracePeriodS } = this.#schedule();
    const retryMs = backoffDelayMs(this.#failures++, {
      baseMs: firstRetryMs,
      maxMs: gracePeriodS * 1000,
      jitter: 0,
    });
    return this.#clock.monotonicMs() + retryMs;
  }

  /** A request is pending. */
  tryNow(): void {
    this.retryDueMs = -Infinity;
  }

  /** The cause of the failures no longer exists. */
  forgetFailures(): void {
    this.retryDueMs = -Infinity;
    this.#failures = 0;
  }

  /** The known state is right, though no scan was made. */
  works(): void {
    this.#failures = 0;
  }

  #checkBy(dueMs: number): void {
    this.checkDueMs = Math.min(this.checkDueMs, dueMs);
  }

  #succeeded(delayS: number): void {
    this.checkDueMs = this.#clock.monotonicMs() + delayS * 1000;
    this.forgetFailures();
  }
}
