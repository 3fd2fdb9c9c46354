/** Where time comes from, so that tests can bring their own. */

export interface Clock {
  /** Milliseconds that only grow, from an arbitrary zero. For every decision. */
  monotonicMs(): number;
  /** Milliseconds since 1970. For timestamps that people read, never for a decision: it can be set and skewed. */
  wallMs(): number;
  /** Calls `callback` once, `delayMs` from now or later. The function returned cancels; calling it again does nothing. */
  schedule(delayMs: number, callback: () => void): () => void;
}

/** setTimeout takes a 32-bit number and fires at once for a longer one. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  schedule(delayMs, callback) {
    let timer: NodeJS.Timeout;
    const arm = (leftMs: number): void => {
      // Rounded up: setTimeout cuts fractions off, and a timer must not fire before its time.
      const stepMs = Math.min(Math.ceil(Math.max(leftMs, 0)), LONGEST_TIMER_MS);
      timer = setTimeout(() => (leftMs > stepMs ? arm(leftMs - stepMs) : callback()), stepMs);
    };
    arm(delayMs);
    return () => clearTimeout(timer);
  },
};

/** Resolves after `delayMs`; rejects with the signal's reason as soon as it aborts. */
export async function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const cancel = clock.schedule(delayMs, resolve);
  const onAbort = (): void => reject(signal?.reason as Error);
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    await promise;
  } finally {
    cancel();
    signal?.removeEventListener('abort', onAbort);
  }
}
