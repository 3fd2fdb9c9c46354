/**
 * Whether a callback accepts alerts, as a state that changes slowly: a policy's status must not change with each try.
 */
import type { Clock } from '../../../lib/time/clock.ts';

export interface LaneTroubleOptions {
  readonly clock: Clock;
  /** For how long nothing has to have been delivered, from the first failure on. */
  readonly failingMs: number;
  /** `lasting` is something else now: at most twice in `failingMs`, however often the receiver changes its mind. */
  readonly onChange: () => void;
}

/** A reason stays for this many times `failingMs` before another one is reported. */
const REASON_TIMES = 10;

/** The problems of one lane. Disposing it ends the waiting. */
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

  /** Why nothing has been delivered for long; undefined if alerts are delivered. */
  get lasting(): string | undefined {
    return this.#lasting;
  }

  /** Whether this process knows by now how it is. */
  get isDecided(): boolean {
    return this.#hasDelivered || this.#lasting !== undefined;
  }

  /** A try came to nothing, or the receiver does not want an alert. */
  failed(why: string): void {
    this.#why = why;
    // Even without another try: if a receiver refuses alerts, each one is dropped.
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
    // A problem is already reported: for a name with several addresses, each try may fail for another reason.
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
