/** Attribute arithmetic: groups and expressions such as `p+u-G`, evaluated from left to right. */
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
 * Attributes (`set`) and unsupported checksums (`foreign`), each as one bit. Unsupported checksums need bits of their
 * own, because they are replaced by sha256 only after the arithmetic: `R+sha256-md5` removes md5 and keeps sha256.
 */
export interface Value {
  readonly set: AttributeSet;
  readonly foreign: number;
}

const foreignNames = [...refusedChecksums, ...otherChecksums];
const foreignBits = new Map(foreignNames.map((name, at) => [name, 1 << at]));

/** Attributes of AIDE 0.19 on Linux that are accepted but not compared. */
export const ignoredAttributes: ReadonlySet<string> = new Set(['fstype']);

/** The unsupported checksum that `R` contains. */
const checksumOfR: Readonly<Record<Dialect, string>> = { '0.18': 'md5', '0.19': 'sha3_256' };

/** Checksums that are not in `H` of 0.19 (ChangeLog, 2024-11-10): those that it calls legacy, and those that it has removed. */
const notInH = new Set(['md5', 'sha1', 'rmd160', 'gost', 'tiger', 'crc32', 'crc32b', 'haval', 'whirlpool']);

/** The attributes, with sha256 in place of unsupported checksums, unless they include a supported checksum. */
export function settled({ set, foreign }: Value): AttributeSet {
  return foreign !== 0 && (set & checksums) === 0 ? set | setOf('sha256') : set;
}

/** The values of attribute and group names, as defined so far in the file. */
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

  /** Whether the file itself has defined the name. */
  isOwn(name: string): boolean {
    return this.#own.has(name);
  }

  /** Evaluates from left to right; calls `unknown` for undefined names, which count as empty. */
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
