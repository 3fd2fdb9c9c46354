/** When a job's next scan is due, and when a failed step is retried. Times are in ms of the monotonic clock. */
import { backoffDelayMs } from '../../../lib/time/backoff.ts';
import type { Clock } from '../../../lib/time/clock.ts';

/** From the FileIntegrity, see `scheduleOf`. */
export interface JobSchedule {
  readonly gracePeriodS: number;
  readonly initialDelayS: number;
}

/** Delay of the first retry; delays grow up to the FileIntegrity's own period. */
const firstRetryMs = 5000;
/** Minimum time between scans if the agent is restarted again and again, or keeps losing events. */
const minPeriodMs = 60_000;

export class JobTimes {
  readonly #clock: Clock;
  readonly #schedule: () => JobSchedule;
  readonly #startedMs: number;
  /** When the last scan ended in this process. */
  #checkedMs = -Infinity;
  #failures = 0;
  /** When the next scan is due; Infinity if none is. */
  checkDueMs = Infinity;
  /** A failed step is not retried before this time. */
  retryDueMs = -Infinity;

  /** @param schedule called each time, because the FileIntegrity may have changed */
  constructor(clock: Clock, schedule: () => JobSchedule) {
    this.#clock = clock;
    this.#schedule = schedule;
    this.#startedMs = clock.monotonicMs();
  }

  /** When the first baseline may be made. */
  get firstDueMs(): number {
    return this.#startedMs + this.#schedule().initialDelayS * 1000;
  }

  /** Call when the schedule has changed: the next scan is then due no later than the new schedule says. */
  reschedule(): void {
    if (!Number.isFinite(this.checkDueMs)) return;
    this.#checkBy(this.#clock.monotonicMs() + this.#schedule().gracePeriodS * 1000);
  }

  /** Call if there is an earlier baseline. `lastMs` is when the last scan ended, in wall-clock time; undefined if unknown. */
  resumed(lastMs: number | undefined): void {
    const nowMs = this.#clock.monotonicMs();
    const { gracePeriodS } = this.#schedule();
    const sinceMs = Math.max(0, this.#clock.wallMs() - (lastMs ?? -Infinity));
    const periodMs = Math.min(gracePeriodS * 1000, minPeriodMs);
    this.#checkBy(Math.max(this.firstDueMs, nowMs - Math.min(sinceMs, periodMs) + periodMs));
  }

  /** Call when changes may have been missed. If that keeps happening, scans still have pauses between them. */
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

  /** Call after a scan, or when a baseline was replaced. */
  succeeded(): void {
    this.#succeeded(this.#schedule().gracePeriodS);
  }

  /** Call after a failure. Returns when to retry; the delay grows with each failure. */
  failed(): number {
    const { gracePeriodS } = this.#schedule();
    const retryMs = backoffDelayMs(this.#failures++, {
      baseMs: firstRetryMs,
      maxMs: gracePeriodS * 1000,
      jitter: 0,
    });
    return this.#clock.monotonicMs() + retryMs;
  }

  /** Call when there is a request: a retry may start at once. */
  tryNow(): void {
    this.retryDueMs = -Infinity;
  }

  /** Call when the cause of the failures is gone. */
  forgetFailures(): void {
    this.retryDueMs = -Infinity;
    this.#failures = 0;
  }

  /** Call when the provider works, although there was no scan. */
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
