/** Sends the alerts of one callback to its receiver: one at a time and so in order, each until it is delivered, refused or too old. */
import { messageOf } from '../../../lib/errors/errors.ts';
import { Backoff, type BackoffOptions } from '../../../lib/time/backoff.ts';
import { type Clock, sleep } from '../../../lib/time/clock.ts';
import type { QueueLog } from '../../../lib/spool/queue-log.ts';
import type { StoredRecord } from '../../../lib/spool/record.ts';
import type { CallbackQueue } from './callback-queue.ts';
import { displayName } from './callback-url.ts';
import { LaneTrouble } from './lane-trouble.ts';
import type { CallbackState, CallbackStats, LastError } from './options.ts';
import type { Outcome } from './outcome.ts';
import { Poster, type PosterOptions } from './poster.ts';
import type { AcquireSlot } from './slots.ts';

/** The events of a lane. Names of callbacks are those of {@link displayName}. */
export interface LaneObserver {
  delivered(latencyMs: number): void;
  retried(): void;
  dropped(reason: 'unwanted' | 'expired'): void;
  /** The position in the log could not be written: the next process will deliver these alerts again. */
  cursorFailed(): void;
  /** The first failure after a success; if it concerns credentials, also each new reason. `lastError` has the reason. */
  troubled(lane: Lane): void;
  /** The problem in `state` has changed or ended. */
  lasting(lane: Lane): void;
  /** The first success after a failure. */
  recovered(name: string, failures: number, waiting: number): void;
  unwanted(name: string, id: string, why: string): void;
}

export interface LaneOptions extends PosterOptions {
  readonly acquireSlot: AcquireSlot;
  readonly backoff: BackoffOptions;
  readonly maxAgeMs: number;
  readonly maxRetryAfterMs: number;
  readonly failingMs: number;
  /** Milliseconds since 1970, on a clock that is not set forward or back. */
  readonly nowMs: () => number;
  readonly observer: LaneObserver;
}

/** How often an alert is tried that the receiver refuses (400, 413, ...). */
const UNWANTED_TRIES = 3;

/** Starts with `wake`. The owner stops the lane, and also owns the log. */
export class Lane {
  readonly queue: CallbackQueue;
  readonly log: QueueLog;
  readonly #options: LaneOptions;
  readonly #poster: Poster;
  readonly #backoff: Backoff;
  readonly #clock: Clock;
  readonly #abort = new AbortController();
  /** Ends all waiting, but not a request that is under way. */
  readonly #leave = new AbortController();
  /** The name in logs and metrics. */
  readonly name: string;
  #running: Promise<void> | undefined;
  #refusals = 0;
  #delivered = 0;
  #lastError: LastError | undefined;
  #reportedWhy = '';
  readonly #trouble: LaneTrouble;

  constructor(queue: CallbackQueue, log: QueueLog, options: LaneOptions) {
    const { callback, secret } = queue;
    this.queue = queue;
    this.log = log;
    this.#options = options;
    this.#clock = options.clock;
    this.#poster = new Poster(callback, secret, options);
    this.#backoff = new Backoff(options.backoff);
    this.name = displayName(callback, secret);
    const { clock, failingMs, observer } = options;
    this.#trouble = new LaneTrouble({ clock, failingMs, onChange: () => observer.lasting(this) });
  }

  /** Whether no alert waits and no request is under way. */
  get idle(): boolean {
    return this.#running === undefined && this.log.depth === 0;
  }

  /** The error of the last failed attempt, even if others have succeeded since. */
  get lastError(): LastError | undefined {
    return this.#lastError;
  }

  /** Age of the oldest alert; 0 if none waits, or it cannot be read now. */
  get oldestMs(): number {
    try {
      const head = this.log.depth > 0 ? this.log.head() : undefined;
      return head === undefined ? 0 : Math.max(0, this.#options.nowMs() - head.acceptedMs);
    } catch {
      return 0;
    }
  }

  get stats(): CallbackStats {
    const { depth, sizeBytes } = this.log;
    return {
      ...this.queue,
      name: this.name,
      depth,
      sizeBytes,
      oldestMs: this.oldestMs,
      delivered: this.#delivered,
      failures: this.#backoff.attempts,
      lastError: this.#lastError,
    };
  }

  get state(): CallbackState {
    const { depth } = this.log;
    const { lasting: problem, isDecided } = this.#trouble;
    return {
      ...this.queue,
      name: this.name,
      problem,
      isDecided: isDecided || depth === 0,
      aboutCredentials: this.#lastError?.aboutCredentials === true,
    };
  }

  /** Call it when the log has alerts. */
  wake(): void {
    if (this.#running !== undefined || this.#leave.signal.aborted) return;
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
      // Alerts may have been added after the last check of the log.
      if (this.log.depth > 0) this.wake();
    });
  }

  /** Starts no further request, gives the one under way `lingerMs` to complete, and closes the connection. */
  async stop(lingerMs: number): Promise<void> {
    this.#leave.abort();
    this.#trouble[Symbol.dispose]();
    const cancel = this.#clock.schedule(lingerMs, () => this.#abort.abort());
    await this.#running;
    cancel();
    this.#poster[Symbol.dispose]();
  }

  async #run(): Promise<void> {
    const { signal } = this.#leave;
    while (!signal.aborted) {
      let delayMs = 0;
      try {
        const alert = this.#nextLive();
        if (alert === undefined) return;
        const outcome = await this.#try(alert);
        if (outcome === undefined) return;
        delayMs = this.#settle(alert, outcome);
      } catch (error) {
        delayMs = this.#failed({ kind: 'failed', why: `cannot read the queue: ${messageOf(error)}` });
      }
      if (delayMs > 0) await sleep(this.#clock, delayMs, signal).catch(() => undefined);
    }
  }

  /** The oldest alert that is not too old; older ones are dropped. */
  #nextLive(): StoredRecord | undefined {
    const { nowMs, maxAgeMs, observer } = this.#options;
    for (let alert; (alert = this.log.head()) !== undefined;) {
      if (nowMs() - alert.acceptedMs <= maxAgeMs) return alert;
      this.#pass();
      observer.dropped('expired');
    }
    return undefined;
  }

  /** @returns undefined once the lane is being stopped. */
  async #try(alert: StoredRecord): Promise<Outcome | undefined> {
    const leave = this.#leave.signal;
    try {
      // Prepares before a slot for the request is taken: preparing credentials may take long.
      const prepared = await this.#poster.prepare(leave);
      if (prepared.kind !== 'prepared') return prepared;
      using _slot = await this.#options.acquireSlot(this.#backoff.attempts > 0);
      if (leave.aborted) return undefined;
      return await this.#poster.post(alert, prepared, this.#abort.signal);
    } catch (error) {
      if (leave.aborted) return undefined;
      throw error;
    }
  }

  /** @returns how long to wait before the next try, in milliseconds. */
  #settle(alert: StoredRecord, outcome: Outcome): number {
    const { observer, nowMs } = this.#options;
    if (outcome.kind === 'delivered') {
      this.#pass();
      this.#delivered++;
      observer.delivered(Math.max(0, nowMs() - alert.acceptedMs));
      this.#trouble.delivered();
      this.#succeeded();
      return 0;
    }
    if (outcome.kind === 'unwanted' && ++this.#refusals >= UNWANTED_TRIES) {
      this.#note(outcome);
      this.#pass();
      observer.dropped('unwanted');
      observer.unwanted(this.name, alert.id, outcome.why);
      // The receiver responds, and may accept the next alert.
      this.#succeeded();
      return 0;
    }
    return this.#failed(outcome);
  }

  #pass(): void {
    this.#refusals = 0;
    if (!this.log.pass()) this.#options.observer.cursorFailed();
  }

  #succeeded(): void {
    const failures = this.#backoff.attempts;
    this.#backoff.reset();
    this.#reportedWhy = '';
    if (failures > 0) this.#options.observer.recovered(this.name, failures, this.log.depth);
  }

  #failed(outcome: Exclude<Outcome, { kind: 'delivered' }>): number {
    const { observer, maxRetryAfterMs } = this.#options;
    const { why, aboutCredentials } = this.#note(outcome);
    const isNews = this.#backoff.attempts === 0 || (aboutCredentials && why !== this.#reportedWhy);
    observer.retried();
    const askedMs = outcome.kind === 'failed' ? (outcome.retryAfterMs ?? 0) : 0;
    const delayMs = Math.max(this.#backoff.nextMs(), Math.min(askedMs, maxRetryAfterMs));
    if (isNews) {
      this.#reportedWhy = why;
      observer.troubled(this);
    }
    return delayMs;
  }

  #note(outcome: Exclude<Outcome, { kind: 'delivered' }>): LastError {
    const aboutCredentials = outcome.kind === 'failed' && outcome.aboutCredentials === true;
    // A failure during the stop says nothing about the receiver.
    if (!this.#leave.signal.aborted)
      this.#trouble.failed(
        outcome.kind === 'unwanted' ? `${outcome.why}, so the alerts are dropped` : outcome.why,
      );
    return (this.#lastError = { why: outcome.why, atMs: this.#options.nowMs(), aboutCredentials });
  }
}
