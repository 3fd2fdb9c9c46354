/**
 * The order of a merged list. What the patch names comes in the order that the patch wants; what only the
 * server has keeps its own order, and its place before or after the others as far as the live list tells.
 */

/** What identifies an item: the value of its merge key, or the item itself in a set. */
export type ItemKey = (item: unknown) => unknown;

/**
 * @param merged all items, in any order.
 * @param wanted items in the order that the patch wants; those that are not in `merged` do not matter.
 * @param live items in the order that the object had.
 */
export function orderItems(
  merged: readonly unknown[],
  wanted: readonly unknown[],
  live: readonly unknown[],
  keyOf: ItemKey,
): unknown[] {
  const wantedPositions = positions(wanted, keyOf);
  const livePositions = positions(live, keyOf);
  const named: unknown[] = [];
  const serverOnly: unknown[] = [];
  for (const item of merged) (wantedPositions.has(keyOf(item)) ? named : serverOnly).push(item);
  const last = Number.MAX_SAFE_INTEGER;
  const sortBy = (order: ReadonlyMap<unknown, number>) => (a: unknown, b: unknown) =>
    (order.get(keyOf(a)) ?? last) - (order.get(keyOf(b)) ?? last);
  named.sort(sortBy(wantedPositions));
  serverOnly.sort(sortBy(livePositions));

  const ordered: unknown[] = [];
  let next = 0;
  for (const item of named) {
    const position = livePositions.get(keyOf(item));
    // An item that is new to the server says nothing about where the server's own items belong.
    if (position !== undefined) {
      const isBefore = (own: unknown) => (livePositions.get(keyOf(own)) ?? last) < position;
      while (next < serverOnly.length && isBefore(serverOnly[next])) ordered.push(serverOnly[next++]);
    }
    ordered.push(item);
  }
  return [...ordered, ...serverOnly.slice(next)];
}

/** Where each item stands first. */
function positions(items: readonly unknown[], keyOf: ItemKey): Map<unknown, number> {
  const found = new Map<unknown, number>();
  for (const [index, item] of items.entries()) {
    const key = keyOf(item);
    if (!found.has(key)) found.set(key, index);
  }
  return found;
}

/** Whether the items of one list all occur in another one, in the same order. */
export function inOrder(items: readonly unknown[], within: readonly unknown[], keyOf: ItemKey): boolean {
  let at = 0;
  for (const item of items) {
    const key = keyOf(item);
    while (at < within.length && keyOf(within[at]) !== key) at++;
    if (at++ >= within.length) return false;
  }
  return true;
}
