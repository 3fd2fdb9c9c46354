/**
 * The order of API versions: `v2`, `v1`, `v2beta1`, `v1beta2`, `v1alpha1`, then all others by name
 * (k8s.io/apimachinery `pkg/version/helpers.go`).
 */

interface Parsed {
  readonly stage: number;
  readonly major: number;
  readonly minor: number;
}

const stages = ['alpha', 'beta', undefined];

function parse(version: string): Parsed | undefined {
  const match = /^v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?$/.exec(version);
  if (match === null) return undefined;
  return { stage: stages.indexOf(match[2]), major: Number(match[1]), minor: Number(match[3] ?? 0) };
}

/** For sorting: below zero if `a` is preferred to `b`. */
export function compareVersions(a: string, b: string): number {
  const [first, second] = [parse(a), parse(b)];
  if (first === undefined || second === undefined) {
    if (first !== undefined) return -1;
    if (second !== undefined) return 1;
    return a < b ? -1 : a === b ? 0 : 1;
  }
  return second.stage - first.stage || second.major - first.major || second.minor - first.minor;
}
