/** Semantic versions (semver.org 2.0.0), parsed and ordered as in the Go library that Kubernetes uses. */

const maxUint64 = 2n ** 64n - 1n;

export class Semver {
  readonly major: bigint;
  readonly minor: bigint;
  readonly patch: bigint;
  readonly #preRelease: readonly string[];
  readonly #build: string;

  constructor(core: readonly [bigint, bigint, bigint], preRelease: readonly string[], build: string) {
    [this.major, this.minor, this.patch] = core;
    this.#preRelease = preRelease;
    this.#build = build;
  }

  /** @returns the version, or the problem of the text. */
  static parse(text: string): Semver | string {
    if (text === '') return 'Version string empty';
    const [major = '', minor, rest] = splitOnce(text, 3);
    if (minor === undefined || rest === undefined) return 'No Major.Minor.Patch elements found';
    const [, patch = '', preRelease, build] = /^([^+-]*)(?:-([^+]*))?(?:\+(.*))?$/s.exec(rest) ?? [];
    const core: bigint[] = [];
    for (const [name, part] of [
      ['Major', major],
      ['Minor', minor],
      ['Patch', patch],
    ] as const) {
      if (!/^\d+$/.test(part))
        return `Invalid character(s) found in ${name.toLowerCase()} number ${JSON.stringify(part)}`;
      if (part.length > 1 && part.startsWith('0'))
        return `${name} number must not contain leading zeroes ${JSON.stringify(part)}`;
      const value = BigInt(part);
      if (value > maxUint64) return `strconv.ParseUint: parsing ${JSON.stringify(part)}: value out of range`;
      core.push(value);
    }
    const parts = preRelease?.split('.') ?? [];
    for (const part of parts) {
      if (part === '') return 'Prerelease is empty';
      if (!/^[0-9A-Za-z-]+$/.test(part))
        return `Invalid character(s) found in prerelease ${JSON.stringify(part)}`;
      if (/^0\d+$/.test(part))
        return `Numeric PreRelease version must not contain leading zeroes ${JSON.stringify(part)}`;
    }
    for (const part of build?.split('.') ?? []) {
      if (part === '') return 'Build meta data is empty';
      if (!/^[0-9A-Za-z-]+$/.test(part))
        return `Invalid character(s) found in build meta data ${JSON.stringify(part)}`;
    }
    return new Semver(core as [bigint, bigint, bigint], parts, build ?? '');
  }

  /** Also accepts `v1`, `1.2` and `01.2.3`. */
  static parseLoosely(text: string): Semver | string {
    const parts = splitOnce(text.replace(/^v/, ''), 3).map((part) => {
      if (part.length <= 1) return part;
      const short = part.replace(/^0+/, '');
      return /^\d/.test(short) ? short : `0${short}`;
    });
    if (parts.length < 3 && /[+-]/.test(parts.at(-1) ?? ''))
      return 'short version cannot contain PreRelease/Build meta data';
    while (parts.length < 3) parts.push('0');
    return Semver.parse(parts.join('.'));
  }

  /** -1, 0 or 1; build metadata does not count. */
  compareTo(other: Semver): bigint {
    for (const part of ['major', 'minor', 'patch'] as const) {
      if (this[part] !== other[part]) return this[part] < other[part] ? -1n : 1n;
    }
    return comparePreReleases(this.#preRelease, other.#preRelease);
  }

  equals(other: unknown): boolean {
    return other instanceof Semver && this.compareTo(other) === 0n;
  }

  toString(): string {
    const preRelease = this.#preRelease.length === 0 ? '' : `-${this.#preRelease.join('.')}`;
    return `${this.major}.${this.minor}.${this.patch}${preRelease}${this.#build === '' ? '' : `+${this.#build}`}`;
  }
}

/** Splits into at most `max` parts; the last one contains the rest. */
function splitOnce(text: string, max: number): string[] {
  const parts = text.split('.');
  return [...parts.slice(0, max - 1), ...(parts.length < max ? [] : [parts.slice(max - 1).join('.')])];
}

/** A version without a prerelease sorts last; numbers sort before words. */
function comparePreReleases(a: readonly string[], b: readonly string[]): bigint {
  if (a.length === 0 || b.length === 0) return a.length === b.length ? 0n : a.length === 0 ? 1n : -1n;
  for (const [index, left] of a.entries()) {
    const right = b[index];
    if (right === undefined) return 1n;
    if (left === right) continue;
    const [leftNumber, rightNumber] = [left, right].map((part) =>
      /^\d+$/.test(part) ? BigInt(part) : undefined,
    );
    if (leftNumber !== undefined && rightNumber !== undefined) {
      if (leftNumber !== rightNumber) return leftNumber < rightNumber ? -1n : 1n;
    } else if (leftNumber !== undefined) return -1n;
    else if (rightNumber !== undefined) return 1n;
    else return left < right ? -1n : 1n;
  }
  return a.length < b.length ? -1n : 0n;
}
