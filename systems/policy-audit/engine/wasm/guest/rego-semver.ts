/** Semantic versions (https://semver.org), for Rego. */
const pattern =
  /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][\da-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][\da-zA-Z-]*))*))?(?:\+[\da-zA-Z-]+(?:\.[\da-zA-Z-]+)*)?$/;

export function isSemver(version: string): boolean {
  return pattern.test(version);
}

/** -1, 0 or 1. @throws {RangeError} if it is not a version. */
export function semverCompare(a: string, b: string): number {
  const [left, right] = [pattern.exec(a), pattern.exec(b)];
  if (left === null || right === null) throw new RangeError('not a semantic version');
  for (const part of [1, 2, 3]) {
    const order = compareNumbers(left[part] ?? '', right[part] ?? '');
    if (order !== 0) return order;
  }
  const [before, after] = [left[4], right[4]];
  if (before === after) return 0;
  // A version without one is later.
  if (before === undefined) return 1;
  if (after === undefined) return -1;
  return comparePrereleases(before.split('.'), after.split('.'));
}

function comparePrereleases(a: readonly string[], b: readonly string[]): number {
  for (const [index, left] of a.entries()) {
    const right = b[index];
    if (right === undefined) return 1;
    if (left === right) continue;
    const [isLeftNumber, isRightNumber] = [/^\d+$/.test(left), /^\d+$/.test(right)];
    if (isLeftNumber && isRightNumber) return compareNumbers(left, right);
    if (isLeftNumber !== isRightNumber) return isLeftNumber ? -1 : 1;
    return left < right ? -1 : 1;
  }
  return a.length < b.length ? -1 : 0;
}

/** Of any length, without leading zeros. */
function compareNumbers(a: string, b: string): number {
  if (a === b) return 0;
  return a.length < b.length || (a.length === b.length && a < b) ? -1 : 1;
}
