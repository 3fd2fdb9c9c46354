/** Attribute arithmetic: groups and `p+u-G`, from left to right. */
import {
  attributes,
  checksums,
  defaultGroups,
  otherChecksums,
  refusedChecksums,
  setOf,
  type AttributeSet,
} from '../model/attributes.ts';
import type { Dialect } from './source.ts';
import type { Expression, Term } from './syntax.ts';

/**
 * Attributes, and checksums that we do not calculate as bits of their own: `R+sha256-md5` takes md5 away and leaves
 * sha256, so they cannot be one before the arithmetic is done.
 */
export interface Value {
  readonly set: AttributeSet;
  readonly foreign: number;
}

const foreignNames = [...refusedChecksums, ...otherChecksums];
const foreignBits = new Map(foreignNames.map((name, at) => [name, 1 << at]));

/** Attributes of 0.19, on Linux; read but not compared. */
export const ignoredAttributes: ReadonlySet<string> = new Set(['fstype']);

/** The checksum that 0.19 has in `R` in place of md5. */
const checksumOfR: Readonly<Record<Dialect, string>> = { '0.18': 'md5', '0.19': 'sha3_256' };

/**
 * Checksums that `H` of 0.19 lacks (ChangeLog, 2024-11-10): its legacy checksums, and those that it no longer
 * has at all.
 */
const notInH = new Set(['md5', 'sha1', 'rmd160', 'gost', 'tiger', 'crc32', 'crc32b', 'haval', 'whirlpool']);

/** With sha256 in place of the checksums that we do not calculate, unless it has another checksum. */
export function settled({ set, foreign }: Value): AttributeSet {
  return foreign !== 0 && (set & checksums) === 0 ? set | setOf('sha256') : set;
}

/** The meaning of names, as far as the file was read. */
export class Groups {
  readonly #values = new Map<string, Value>();
  readonly #own = new Set<string>();

  constructor(dialect: Dialect) {
    for (const { name, bit } of attributes) this.#values.set(name, { set: bit, foreign: 0 });
    for (const [name, bit] of foreignBits) this.#values.set(name, { set: 0, foreign: bit });
    for (const name of ignoredAttributes) this.#values.set(name, { set: 0, foreign: 0 });
    const all = foreignNames
      .filter((name) => dialect === '0.18' || !notInH.has(name))
      .reduce((sum, name) => sum | (foreignBits.get(name) ?? 0), 0);
    for (const [name, set] of Object.entries(defaultGroups)) {
      const foreign = name === 'R' ? (foreignBits.get(checksumOfR[dialect]) ?? 0) : name === 'H' ? all : 0;
      this.#values.set(name, { set, foreign });
    }
  }

  get(name: string): Value | undefined {
    return this.#values.get(name);
  }

  define(name: string, value: Value): void {
    this.#values.set(name, value);
    this.#own.add(name);
  }

  /** Whether the file itself has defined it. */
  isOwn(name: string): boolean {
    return this.#own.has(name);
  }

  /** From left to right; `unknown` is called for undefined names, which count as empty. */
  evaluate(expression: Expression, unknown: (term: Term) => void): Value {
    let set = 0;
    let foreign = 0;
    for (const term of expression.terms) {
      const value = this.#values.get(term.name);
      if (value === undefined) unknown(term);
      else if (term.operator === '+') {
        set |= value.set;
        foreign |= value.foreign;
      } else {
        set &= ~value.set;
        foreign &= ~value.foreign;
      }
    }
    return { set, foreign };
  }
}
