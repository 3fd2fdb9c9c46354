/**
 * Sets of addresses as intervals that are sorted, disjoint and do not touch.
 *
 * @module
 */
import { addressText, addressValue, type Interval, type IpAddress } from './addresses.ts';
import type { AddressRange, AddressSet, Family } from './rules.ts';

/** Sorts, and joins what overlaps or touches. */
export function union(intervals: readonly Interval[]): Interval[] {
  const joined: Interval[] = [];
  for (const next of intervals.toSorted(byLow)) {
    const last = joined.at(-1);
    if (last === undefined || next.low > last.high + 1n) joined.push(next);
    else if (next.high > last.high) joined[joined.length - 1] = { low: last.low, high: next.high };
  }
  return joined;
}

/** What of the interval is in none of the holes. */
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

/** These intervals (of {@link union}) with these addresses, none of which is in them. */
export function setOf(
  family: Family,
  intervals: readonly Interval[],
  addresses: readonly IpAddress[],
): AddressSet {
  const points = addresses.map(({ value, text }) => ({ low: value, high: value, text }));
  return rangesOf(family, union([...intervals, ...points]));
}

/** The set with one more address, which it does not have yet. */
export function withAddress(set: AddressSet, { family, value }: IpAddress): AddressSet {
  const at = firstIndex(set.length, (index) => addressValue((set[index] as AddressRange).first) > value);
  const [before, after] = [set[at - 1], set[at]];
  const joinsBefore = before !== undefined && addressValue(before.last) === value - 1n;
  const joinsAfter = after !== undefined && addressValue(after.first) === value + 1n;
  const text = addressText(family, value);
  const joined = {
    first: joinsBefore ? before.first : text,
    last: joinsAfter ? after.last : text,
  };
  return set.toSpliced(joinsBefore ? at - 1 : at, Number(joinsBefore) + Number(joinsAfter), joined);
}

/** The set without an address, which it has. */
export function withoutAddress(set: AddressSet, { family, value }: IpAddress): AddressSet {
  const at = firstIndex(set.length, (index) => addressValue((set[index] as AddressRange).last) >= value);
  const around = set[at] as AddressRange;
  const left = without({ low: addressValue(around.first), high: addressValue(around.last) }, [
    { low: value, high: value },
  ]);
  return set.toSpliced(at, 1, ...rangesOf(family, left));
}

/** The first index for which it holds; once it does it holds for all that follow. */
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
