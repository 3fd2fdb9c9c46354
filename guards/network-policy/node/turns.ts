/** Decides when the kernel is programmed: immediately after changes, and from time to time completely. */
import { setImmediate as turn } from 'node:timers/promises';

import { sleep, systemClock as clock } from '../../../lib/time/clock.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import type { Enforcement } from './enforcement.ts';

/** Changes less than this apart are programmed together. The first change after a quiet time is programmed immediately. */
const SETTLE_MS = 5;
const VERIFY_MS = 60_000;
const FULL_SYNC_MS = 5 * 60_000;

export class Turns {
  readonly #enforcement: Enforcement;
  readonly #dataplane: Pick<Dataplane, 'disturbed'>;
  readonly #signal: AbortSignal;
  #changed = Promise.withResolvers<void>();
  #fullAtMs = -Infinity;
  #verifiedAtMs = clock.monotonicMs();
  #programmedAtMs = this.#verifiedAtMs;
  #isWatching = false;
  /** Whether another program has changed our objects, or may have. */
  #isDisturbed = false;

  constructor(enforcement: Enforcement, dataplane: Pick<Dataplane, 'disturbed'>, signal: AbortSignal) {
    this.#enforcement = enforcement;
    this.#dataplane = dataplane;
    this.#signal = signal;
    signal.addEventListener('abort', () => this.wake(), { once: true });
  }

  /** Something has changed: ends the wait of {@link next}. */
  wake(): void {
    this.#changed.resolve();
  }

  /** Programs what is due: everything after a failure. */
  async take(): Promise<void> {
    this.#changed = Promise.withResolvers();
    const nowMs = clock.monotonicMs();
    const isFull = nowMs - this.#fullAtMs >= FULL_SYNC_MS;
    const isDisturbed = this.#isDisturbed;
    this.#isDisturbed = false;
    const fullAtMs = isFull ? nowMs : this.#fullAtMs;
    this.#fullAtMs = -Infinity;
    if (isFull || isDisturbed || nowMs - this.#verifiedAtMs >= VERIFY_MS) {
      await (isFull ? this.#enforcement.programAll() : this.#enforcement.repair());
      await this.#enforcement.readCounters();
      this.#verifiedAtMs = nowMs;
    } else await this.#enforcement.programChange();
    this.#fullAtMs = fullAtMs;
    this.#programmedAtMs = clock.monotonicMs();
  }

  /** Resolves when there is something to do, or when the signal aborts. */
  async next(): Promise<void> {
    if (this.#enforcement.isProgrammed) this.#watch();
    const dueMs = this.#verifiedAtMs + VERIFY_MS - clock.monotonicMs();
    const cancel = clock.schedule(dueMs, () => this.wake());
    try {
      await this.#changed.promise;
    } finally {
      cancel();
    }
    const settleMs = Math.max(0, this.#programmedAtMs + SETTLE_MS - clock.monotonicMs());
    // Waits at least for changes that arrived in the same chunk of a watch response.
    if (settleMs === 0) await turn();
    else await sleep(clock, settleMs, this.#signal).catch(() => undefined);
  }

  /** Watches the dataplane across turns: to stop and start that for each turn would take as long as the engine takes for a change. */
  #watch(): void {
    if (this.#isWatching) return;
    this.#isWatching = true;
    void this.#dataplane
      .disturbed(this.#signal)
      .then(
        (isDisturbed) => {
          if (!isDisturbed) return;
          this.#isDisturbed = true;
          this.wake();
        },
        (error: unknown) => {
          // Avoids an unhandled rejection while {@link next} is not waiting; its next call gets the error.
          this.#changed.promise.catch(() => undefined);
          this.#changed.reject(error);
        },
      )
      .finally(() => (this.#isWatching = false));
  }
}
