/** Semantic versions (https://semver.org), for Rego. */
import { Semver } from '../../../../../lib/cel/semver.ts';

export function isSemver(version: string): boolean {
  return Semver.parse(version) instanceof Semver;
}

/** -1, 0 or 1. @throws {RangeError} if it is not a version. */
export function semverCompare(a: string, b: string): number {
  const [left, right] = [Semver.parse(a), Semver.parse(b)];
  if (left instanceof Semver && right instanceof Semver) return Number(left.compareTo(right));
  throw new RangeError('not a semantic version');
}
