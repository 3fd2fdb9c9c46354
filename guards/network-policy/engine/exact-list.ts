/** Lists that are held for long. */

const none: readonly never[] = [];

/** A copy without spare capacity: V8 gives a list that was filled item by item room for 16 more, and there are some 100,000 lists. */
export function exactList<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? none : list.slice();
}
