/**
 * Versions of objects and of lists, and their comparison.
 *
 * A version is the server's own text. Two that are equal are the same; since Kubernetes 1.35, they can be
 * ordered if both are decimal numbers without leading zeros, of the same resource (KEP-5504). Earlier servers
 * gave such numbers too. Any other pair cannot be ordered.
 */

const decimal = /^[1-9]\d*$/;

/** Below 0: `a` is older; 0: they are the same; above 0: `a` is newer; `undefined`: unknown. */
export function compareVersions(a: string, b: string): number | undefined {
  if (a === b) return 0;
  if (!decimal.test(a) || !decimal.test(b)) return undefined;
  // Digits of the same length are in the order of their texts; no number type would hold all of them.
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : 1;
}

/** Whether `a` is known to be older than `b`. */
export function isOlder(a: string, b: string): boolean {
  const order = compareVersions(a, b);
  return order !== undefined && order < 0;
}
