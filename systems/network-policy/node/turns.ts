/** Decides when the kernel is programmed: at once after changes, and now and then completely. */
import { setImmediate as turn } from 'node:timers/promises';

import { sleep, systemClock as clock } from '../../../shared/time/clock.ts';
import type { Dataplane } from './dataplane.ts';
import type { Enforcement } from './enforcement.ts';

/** Changes within this time of each other are programmed together; a change after a quiet time, at once. */
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

  constructor(enforcement: Enforcement, dataplane: Pick<Dataplane, 'disturbed'>, signal: AbortSignal) {
    this.#enforcement = enforcement;
    this.#dataplane = dataplane;
    this.#signal = signal;
    signal.addEventListener('abort', () => this.wake(), { once: true });
  }

  /** Something has changed: {@link next} waits no longer. */
  wake(): void {
    this.#changed.resolve();
  }

  /** Programs what is due: everything after a failure. */
  async take(): Promise<void> {
    this.#changed = Promise.withResolvers();
    const nowMs = clock.monotonicMs();
    const isFull = nowMs - this.#fullAtMs >= FULL_SYNC_MS;
    const fullAtMs = isFull ? nowMs : this.#fullAtMs;
    this.#fullAtMs = -Infinity;
    if (isFull || nowMs - this.#verifiedAtMs >= VERIFY_MS) {
      await (isFull ? this.#enforcement.programAll() : this.#enforcement.repair());
      await this.#enforcement.readCounters();
      this.#verifiedAtMs = nowMs;
    } else await this.#enforcement.programChange();
    this.#fullAtMs = fullAtMs;
    this.#programmedAtMs = clock.monotonicMs();
  }

  /** Resolves when there is something to do, or with the signal. */
  async next(): Promise<void> {
    const pause = new AbortController();
    const paused = AbortSignal.any([this.#signal, pause.signal]);
    const dueMs = Math.max(0, this.#verifiedAtMs + VERIFY_MS - clock.monotonicMs());
    const due = sleep(clock, dueMs, paused).catch(() => undefined);
    const { isProgrammed } = this.#enforcement;
    const disturbed = isProgrammed ? this.#dataplane.disturbed(paused) : Promise.resolve(false);
    await Promise.race([due, this.#changed.promise, ...(isProgrammed ? [disturbed] : [])]);
    pause.abort();
    if (await disturbed) this.#verifiedAtMs = -Infinity;
    const settleMs = Math.max(0, this.#programmedAtMs + SETTLE_MS - clock.monotonicMs());
    // At least what is in the same chunk of a watch response.
    if (settleMs === 0) await turn();
    else await sleep(clock, settleMs, this.#signal).catch(() => undefined);
  }
}
