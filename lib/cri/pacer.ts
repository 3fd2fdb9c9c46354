/**
 * Decides when to query the runtime: after events, on demand, periodically, and with growing pauses
 * while queries fail.
 */
import { Backoff } from '../time/backoff.ts';

interface PacerOptions {
  readonly signal: AbortSignal;
  /** Queries the runtime. Resolves to whether that went well; never rejects. */
  readonly look: () => Promise<boolean>;
  /** How long to wait when nothing asks for a look. */
  readonly idleMs: () => number;
}

/**
 * After an event: at once, and again, because containerd's list shows some things a moment after their event, and so
 * that the last of many events is followed by a look that comes clearly after it.
 */
const SETTLE_MS: readonly number[] = [0, 150, 1_000];
/** The least time between two looks, however many events there are. */
const APART_MS = 100;
const FAILED_PAUSE = { baseMs: 100, maxMs: 2_000 };

interface Waiter {
  /** Number of the first look that counts. */
  readonly from: number;
  readonly resolve: () => void;
}

/** Runs `look` one at a time. */
export class Pacer {
  readonly #options: PacerOptions;
  /** When looks are wanted, on the clock of `performance.now()`, in order. */
  #wanted: number[] = [];
  readonly #waiters = new Set<Waiter>();
  #started = 0;
  readonly #backoff = new Backoff(FAILED_PAUSE);
  /** The pause after a look that failed; undefined after one that went well. */
  #pauseMs: number | undefined;
  #endedAtMs = -Infinity;
  /** Ends the present wait, so that it is planned again. */
  #wake: () => void = () => undefined;

  constructor(options: PacerOptions) {
    this.#options = options;
  }

  /** Call it after an event: plans the looks of SETTLE_MS. */
  settle(): void {
    const nowMs = performance.now();
    this.#wanted = [...new Set([...this.#wanted.slice(0, 1), ...SETTLE_MS.map((ms) => nowMs + ms)])].sort(
      (a, b) => a - b,
    );
    this.#wake();
  }

  /** Call it when `idleMs` may be shorter than before. */
  replan(): void {
    this.#wake();
  }

  /** Asks for a look. Resolves when one that began after this call has gone well. */
  async lookNow(signal?: AbortSignal): Promise<void> {
    const looked = this.#wait(this.#started + 1, signal);
    this.#wanted.unshift(performance.now());
    this.#wake();
    await looked;
  }

  /** Resolves when the next look has gone well; one that is under way counts. */
  async looked(signal?: AbortSignal): Promise<void> {
    await this.#wait(0, signal);
  }

  /** Looks until the signal aborts. */
  async run(): Promise<void> {
    const { signal, look } = this.#options;
    while (!signal.aborted) {
      this.#started += 1;
      const number = this.#started;
      const beganAtMs = performance.now();
      // Requests made before this look are served by it.
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
