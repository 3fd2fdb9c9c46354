/**
 * Where a job stands: what is known of its baseline, why its last step failed, and when it is due. Each step
 * reports here what came of it; plan.ts decides from the view what comes next.
 */
import type { Clock } from '../../../lib/time/clock.ts';
import { BaselineError } from '../database/baseline-error.ts';
import { type JobSchedule, JobTimes } from './job-times.ts';
import type { InitReason, JobView } from './plan.ts';

export class JobState {
  readonly times: JobTimes;
  /** A scan is needed as soon as possible. */
  wantsScan = false;
  #baseline: JobView['baseline'] = 'unknown';
  #configuration: string | undefined;
  #failure: unknown;
  #isChecking = false;

  /** @param schedule queried each time: the FileIntegrity may have changed */
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

  /** The configuration that the baseline was made with, or that it could not be made with. */
  get configuration(): string | undefined {
    return this.#configuration;
  }

  /** Why nothing could be said of all files the last time; undefined if something could. */
  get failure(): unknown {
    return this.#failure;
  }

  /** The inputs have changed: the provider must be asked for the state of the baseline again. */
  forgetBaseline(): void {
    this.#baseline = 'unknown';
    this.times.forgetFailures();
  }

  /** The provider has reported the state of the baseline of this configuration. */
  looked(baseline: JobView['baseline'], configuration: string): void {
    this.#baseline = baseline;
    this.times.works();
    if (baseline === 'ready') this.#configuration = configuration;
  }

  /** A baseline was made. */
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

  /** A step was aborted because something else has to be done. */
  superseded(): void {
    // The reason for the aborted scan still holds.
    if (this.#isChecking) this.wantsScan = true;
    this.#isChecking = false;
  }

  /** @param configuration of the step; undefined if the configuration is missing */
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
