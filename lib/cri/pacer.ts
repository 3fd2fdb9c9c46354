/**
 * Decides when to query the runtime: after events, on demand, periodically, and with growing pauses
 * while queries fail.
 */
import { Backoff } from '../time/backoff.ts';

interface PacerOptions {
  readonly signal: AbortSignal;
  /** Queries the runtime. Resolves to whether that succeeded; never rejects. */
  readonly look: () => Promise<boolean>;
  /** How long to wait if no query is requested. */
  readonly idleMs: () => number;
}

/**
 * When to query after an event: at once, and again later, because containerd's list shows some things a moment after their
 * event, and because the last of many events has to be followed by a query that comes clearly after it.
 */
const SETTLE_MS: readonly number[] = [0, 150, 1_000];
/** Minimum time between two queries, however many events there are. */
const APART_MS = 100;
const FAILED_PAUSE = { baseMs: 100, maxMs: 2_000 };

interface Waiter {
  /** Number of the first query whose success ends the wait. */
  readonly from: number;
  readonly resolve: () => void;
}

/** Calls `look`, one call at a time. */
export class Pacer {
  readonly #options: PacerOptions;
  /** The times of requested queries, on the clock of `performance.now()`, in order. */
  #wanted: number[] = [];
  readonly #waiters = new Set<Waiter>();
  #started = 0;
  readonly #backoff = new Backoff(FAILED_PAUSE);
  /** The pause after a failed query; undefined after a successful one. */
  #pauseMs: number | undefined;
  #endedAtMs = -Infinity;
  /** Ends the current wait, so that the next query is planned again. */
  #wake: () => void = () => undefined;

  constructor(options: PacerOptions) {
    this.#options = options;
  }

  /** Call after an event: plans queries at the times in SETTLE_MS. */
  settle(): void {
    const nowMs = performance.now();
    this.#wanted = [...new Set([...this.#wanted.slice(0, 1), ...SETTLE_MS.map((ms) => nowMs + ms)])].sort(
      (a, b) => a - b,
    );
    this.#wake();
  }

  /** Call when `idleMs` may have become shorter. */
  replan(): void {
    this.#wake();
  }

  /** Requests a query. Resolves when one that began after this call has succeeded. */
  async lookNow(signal?: AbortSignal): Promise<void> {
    const looked = this.#wait(this.#started + 1, signal);
    this.#wanted.unshift(performance.now());
    this.#wake();
    await looked;
  }

  /** Resolves when a query has succeeded, which may be the one in progress. */
  async looked(signal?: AbortSignal): Promise<void> {
    await this.#wait(0, signal);
  }

  /** Queries the runtime until the signal aborts. */
  async run(): Promise<void> {
    const { signal, look } = this.#options;
    while (!signal.aborted) {
      this.#started += 1;
      const number = this.#started;
      const beganAtMs = performance.now();
      // This query satisfies all requests up to now.
      this.#wanted = this.#wanted.filter((atMs) => atMs > beganAtMs);
      const isDone = await look();
      this.#endedAtMs = performance.now();
      this.#pauseMs = isDone ? undefined : this.#backoff.nextMs();
      if (isDone) {
        this.#backoff.reset();
        for (const waiter of this.#waiters) {
          if (waiter.from > number) continue;
          this.#waiters.delete(waiter);
          waiter.resolve();
        }
      }
      await this.#pause();
    }
  }

  async #pause(): Promise<void> {
    const { signal } = this.#options;
    for (;;) {
      const waitMs = this.#nextAtMs() - performance.now();
      if (signal.aborted || waitMs <= 0) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(done, Math.ceil(waitMs));
        const wake = done;
        this.#wake = wake;
        signal.addEventListener('abort', done, { once: true });
        function done(): void {
          clearTimeout(timer);
          signal.removeEventListener('abort', done);
          resolve();
        }
      });
    }
  }

  #nextAtMs(): number {
    if (this.#pauseMs !== undefined) return this.#endedAtMs + this.#pauseMs;
    const idleAtMs = this.#endedAtMs + this.#options.idleMs();
    return Math.max(this.#endedAtMs + APART_MS, Math.min(this.#wanted[0] ?? Infinity, idleAtMs));
  }

  async #wait(from: number, signal: AbortSignal | undefined): Promise<void> {
    const ended = this.#options.signal;
    const isOver = [ended, ...(signal === undefined ? [] : [signal])];
    for (const each of isOver) each.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const waiter: Waiter = { from, resolve: () => finish(resolve) };
      const abort = (): void =>
        finish(() => reject((signal?.aborted === true ? signal : ended).reason as Error));
      const finish = (settle: () => void): void => {
        this.#waiters.delete(waiter);
        for (const each of isOver) each.removeEventListener('abort', abort);
        settle();
      };
      this.#waiters.add(waiter);
      for (const each of isOver) each.addEventListener('abort', abort);
    });
  }
}
