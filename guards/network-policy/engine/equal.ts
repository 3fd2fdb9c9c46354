/** Whether two values are equal as JSON. */

/** Earlier comparisons: for each list, the list that it was compared with, and the result. */
export type Compared = Map<
  readonly unknown[],
  { readonly other: readonly unknown[]; readonly same: boolean }
>;

/** From this length on, remembering the result pays off. */
const LONG = 16;

/**
 * Parts that are the same object are not compared: what is shared costs nothing.
 *
 * @param compared - If many values share long lists, each of them is compared once.
 */
export function equal(a: unknown, b: unknown, compared?: Compared): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a)) return Array.isArray(b) && equalLists(a, b, compared);
  const [left, right] = [a as Readonly<Record<string, unknown>>, b as Readonly<Record<string, unknown>>];
  const keys = Object.keys(left);
  return (
    !Array.isArray(b) &&
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && equal(left[key], right[key], compared))
  );
}

function equalLists(a: readonly unknown[], b: readonly unknown[], compared?: Compared): boolean {
  if (a.length !== b.length) return false;
  const known = compared?.get(a);
  if (known?.other === b) return known.same;
  const same = a.every((item, at) => equal(item, b[at], compared));
  if (a.length >= LONG) compared?.set(a, { other: b, same });
  return same;
}
