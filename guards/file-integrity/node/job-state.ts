/**
 * The state of a job: what is known about its baseline, why its last step failed, and when the next one is due. Each
 * step reports its outcome here; plan.ts decides on the next one.
 */
import type { Clock } from '../../../lib/time/clock.ts';
import { BaselineError } from '../database/baseline-error.ts';
import { type JobSchedule, JobTimes } from './job-times.ts';
import type { InitReason, JobView } from './plan.ts';

export class JobState {
  readonly times: JobTimes;
  /** Whether a scan is needed as soon as possible. */
  wantsScan = false;
  #baseline: JobView['baseline'] = 'unknown';
  #configuration: string | undefined;
  #failure: unknown;
  #isChecking = false;

  /** @param schedule called each time, because the FileIntegrity may have changed */
  constructor(clock: Clock, schedule: () => JobSchedule) {
    this.times = new JobTimes(clock, schedule);
  }

  get view(): Pick<JobView, 'baseline' | 'wantsScan' | 'firstDueMs' | 'checkDueMs' | 'retryDueMs'> {
    const { firstDueMs, checkDueMs, retryDueMs } = this.times;
    return { baseline: this.#baseline, wantsScan: this.wantsScan, firstDueMs, checkDueMs, retryDueMs };
  }

  get isBroken(): boolean {
    return this.#baseline === 'broken';
  }

  /** The id of the configuration with which the last baseline was made, or the last step failed. */
  get configuration(): string | undefined {
    return this.#configuration;
  }

  /** Why the last attempt to examine all files failed; undefined if it succeeded. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Call when the inputs have changed: the provider must be asked again for the state of the baseline. */
  forgetBaseline(): void {
    this.#baseline = 'unknown';
    this.times.forgetFailures();
  }

  /** Call when the provider has reported the state of the baseline for this configuration. */
  looked(baseline: JobView['baseline'], configuration: string): void {
    this.#baseline = baseline;
    this.times.works();
    if (baseline === 'ready') this.#configuration = configuration;
  }

  /** Call when a baseline was made. */
  initialized(reason: InitReason, configuration: string): void {
    this.looked('ready', configuration);
    this.wantsScan = false;
    this.#failure = undefined;
    if (reason === 'first') this.times.succeededFirst();
    else this.times.succeeded();
  }

  beginCheck(): void {
    this.#isChecking = true;
    this.wantsScan = false;
  }

  endCheck(): void {
    this.#isChecking = false;
    this.#failure = undefined;
    this.times.checked();
    this.times.succeeded();
  }

  /** Call when a step was aborted because something else has to be done. */
  superseded(): void {
    // What made the aborted scan necessary still applies.
    if (this.#isChecking) this.wantsScan = true;
    this.#isChecking = false;
  }

  /** Call when a step failed. @param configuration id of the step's configuration; undefined if there is no configuration */
  failed(error: unknown, configuration: string | undefined): void {
    this.#failure = error;
    this.#isChecking = false;
    if (configuration !== undefined) this.#configuration = configuration;
    const dueMs = this.times.failed();
    if (error instanceof BaselineError) {
      this.#baseline = 'broken';
      this.times.checkDueMs = dueMs;
    } else this.times.retryDueMs = dueMs;
  }
}
