/** Sets of addresses as sorted, disjoint intervals that do not touch. */
import { addressText, type Interval } from './addresses.ts';
import type { AddressRange, Family } from './rules.ts';

/** Sorts, and merges what overlaps or touches. */
export function union(intervals: readonly Interval[]): readonly Interval[] {
  if (intervals.length < 2) return intervals;
  const joined: Interval[] = [];
  for (const next of intervals.toSorted(byLow)) {
    const last = joined.at(-1);
    if (last === undefined || next.low > last.high + 1n) joined.push(next);
    else if (next.high > last.high) joined[joined.length - 1] = { low: last.low, high: next.high };
  }
  return joined;
}

/** The parts of the interval that are in none of the holes. */
export function without(whole: Interval, holes: readonly Interval[]): Interval[] {
  const left: Interval[] = [];
  let low = whole.low;
  for (const hole of union(holes)) {
    if (hole.low > low) left.push({ low, high: hole.low - 1n });
    if (hole.high >= low) low = hole.high + 1n;
  }
  if (low <= whole.high) left.push({ low, high: whole.high });
  return left;
}

/** Whether the address is in one of the intervals of {@link union}. */
export function covers(intervals: readonly Interval[], value: bigint): boolean {
  const at = firstIndex(intervals.length, (index) => (intervals[index] as Interval).high >= value);
  return at < intervals.length && (intervals[at] as Interval).low <= value;
}

export function rangesOf(family: Family, intervals: readonly Interval[]): AddressRange[] {
  return intervals.map(({ low, high, text }) => {
    const first = text ?? addressText(family, low);
    return { first, last: low === high ? first : addressText(family, high) };
  });
}

/** The first index for which `holds` is true; it must also be true for all later ones. */
export function firstIndex(length: number, holds: (index: number) => boolean): number {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

function byLow(a: Interval, b: Interval): number {
  return a.low < b.low ? -1 : a.low > b.low ? 1 : 0;
}
