/** Determines whether a callback accepts alerts, as a state that changes slowly: a policy's status must not change with each attempt. */
import type { Clock } from '../../../lib/time/clock.ts';

export interface LaneTroubleOptions {
  readonly clock: Clock;
  /** How long nothing must have been delivered, counted from the first failure. */
  readonly failingMs: number;
  /** Called when `lasting` has changed: at most twice in `failingMs`, however often the receiver changes its mind. */
  readonly onChange: () => void;
}

/** A reason is kept for this many times `failingMs` before another one is reported. */
const REASON_TIMES = 10;

/** The problems of one lane. Disposing of it cancels its timer. */
export class LaneTrouble implements Disposable {
  readonly #options: LaneTroubleOptions;
  #why: string | undefined;
  #lasting: string | undefined;
  #reportedMs = -Infinity;
  #cancel: (() => void) | undefined;
  #hasDelivered = false;

  constructor(options: LaneTroubleOptions) {
    this.#options = options;
  }

  /** Why nothing has been delivered for a long time; undefined if alerts are delivered. */
  get lasting(): string | undefined {
    return this.#lasting;
  }

  /** Whether this process already knows if the callback accepts alerts. */
  get isDecided(): boolean {
    return this.#hasDelivered || this.#lasting !== undefined;
  }

  /** Called when an attempt has failed, or the receiver has refused an alert. */
  failed(why: string): void {
    this.#why = why;
    // The timer runs even without another attempt: an alert that the receiver refuses is dropped, not tried again.
    if (this.#cancel === undefined && why !== this.#lasting) this.#settleIn(this.#waitMs());
  }

  delivered(): void {
    this.#hasDelivered = true;
    this.#why = undefined;
    this.#cancel?.();
    this.#cancel = undefined;
    if (this.#lasting !== undefined) this.#set(undefined);
  }

  [Symbol.dispose](): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #waitMs(): number {
    const { failingMs, clock } = this.#options;
    if (this.#lasting === undefined) return failingMs;
    // If a problem is already reported, the next reason waits: for a name with several addresses, each attempt may fail for another reason.
    return Math.max(0, this.#reportedMs + REASON_TIMES * failingMs - clock.monotonicMs());
  }

  #settleIn(delayMs: number): void {
    this.#cancel = this.#options.clock.schedule(delayMs, () => {
      this.#cancel = undefined;
      if (this.#why !== undefined && this.#why !== this.#lasting) this.#set(this.#why);
    });
  }

  #set(lasting: string | undefined): void {
    this.#lasting = lasting;
    this.#reportedMs = this.#options.clock.monotonicMs();
    this.#options.onChange();
  }
}
