/** Time that stands still until a test moves it. */
import { setImmediate as turn } from 'node:timers/promises';

import type { Clock } from './clock.ts';

interface Timer {
  readonly dueMs: number;
  readonly callback: () => void;
}

export class ManualClock implements Clock {
  #nowMs: number;
  readonly #timers = new Set<Timer>();
  /** Added to the monotonic time to make the wall clock; may be changed at any moment. */
  wallOffsetMs = Date.UTC(2030, 0, 1);

  constructor(startMs = 1000) {
    this.#nowMs = startMs;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return this.#nowMs + this.wallOffsetMs;
  }

  schedule(delayMs: number, callback: () => void): () => void {
    const timer: Timer = { dueMs: this.#nowMs + Math.max(0, delayMs), callback };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /** How many timers are armed. */
  get timers(): number {
    return this.#timers.size;
  }

  /** Moves time on, timer by timer in the order they are due, letting promises settle after each. */
  async advance(byMs: number, afterEach: () => void = () => undefined): Promise<void> {
    const untilMs = this.#nowMs + byMs;
    await turn();
    for (;;) {
      const next = this.#nextTimer();
      if (next === undefined || next.dueMs > untilMs) break;
      this.#timers.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      next.callback();
      await turn();
      afterEach();
    }
    this.#nowMs = untilMs;
    afterEach();
  }

  /** Moves time on without waiting for promises; timers that are due fire in order. */
  advanceSync(byMs: number): void {
    const untilMs = this.#nowMs + byMs;
    for (let next = this.#nextTimer(); next && next.dueMs <= untilMs; next = this.#nextTimer()) {
      this.#timers.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      next.callback();
    }
    this.#nowMs = untilMs;
  }

  #nextTimer(): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) if (next === undefined || timer.dueMs < next.dueMs) next = timer;
    return next;
  }
}

/** Another machine's view of the same time: its own zero, its own wall clock, its own speed. */
export function skewed(
  clock: Clock,
  { offsetMs = 0, wallOffsetMs = 0, rate = 1 }: { offsetMs?: number; wallOffsetMs?: number; rate?: number },
): Clock {
  return {
    monotonicMs: () => clock.monotonicMs() * rate + offsetMs,
    wallMs: () => clock.wallMs() + wallOffsetMs,
    schedule: (delayMs, callback) => clock.schedule(delayMs / rate, callback),
  };
}
