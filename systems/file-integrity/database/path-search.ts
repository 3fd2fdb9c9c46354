/**
 * Finds paths among what is sorted by the bytes of paths.
 *
 * @module
 */
import type { ByteString } from '../entry.ts';

/** The index of the last one that does not come after `path`; -1 where all do. */
export function lastNotAfter<T>(
  sorted: readonly T[],
  path: ByteString,
  pathOf: (one: T) => ByteString,
): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (pathOf(sorted[middle] as T) <= path) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
