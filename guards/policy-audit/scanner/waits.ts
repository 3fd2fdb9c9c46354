/** Waiting in a scan. */
import { orAborted } from '../../../lib/time/abort.ts';
import { type Clock, sleep } from '../../../lib/time/clock.ts';

/** Waits for a promise or the signal. @returns false if the signal has aborted */
export async function until(promise: Promise<unknown>, signal: AbortSignal): Promise<boolean> {
  await orAborted(promise, signal).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  return !signal.aborted;
}

/** Like {@link until}, with a time limit. */
export async function untilWithin(
  promise: Promise<unknown>,
  timeoutMs: number,
  signal: AbortSignal,
  clock: Clock,
): Promise<boolean> {
  const stop = new AbortController();
  const time = sleep(clock, timeoutMs, AbortSignal.any([signal, stop.signal])).catch(() => undefined);
  await Promise.race([promise, time]);
  stop.abort();
  return !signal.aborted;
}

/** A list request in progress. */
interface Listing {
  readonly isSynced: boolean;
  readonly synced: Promise<unknown>;
  /** Number of objects listed so far. */
  readonly size: number;
}

/**
 * Waits until everything is listed, or until none of the remaining lists has made progress for this long: a long
 * list needs its time, and one that may not be read never completes.
 */
export async function untilListed(
  listings: readonly Listing[],
  stillMs: number,
  signal: AbortSignal,
  clock: Clock,
): Promise<boolean> {
  for (let before = -1; ;) {
    const left = listings.filter(({ isSynced }) => !isSynced);
    const sizes = left.reduce((sum, { size }) => sum + size, 0);
    if (left.length === 0 || sizes === before || signal.aborted) return !signal.aborted;
    before = sizes;
    await untilWithin(allSynced(left), stillMs, signal, clock);
  }
}

export function allSynced(caches: Iterable<{ readonly synced: Promise<unknown> }>): Promise<unknown> {
  return Promise.all(Array.from(caches, ({ synced }) => synced));
}
