/**
 * Reading the parts of a regular expression that stand for one character: literals, escapes, classes.
 *
 * @module
 */
import {
  folded,
  not,
  perlClasses,
  posixClasses,
  ranges,
  unicodeClass,
  union,
  type CharSet,
} from './charset.ts';

/** A pattern that Go would not compile; the message is Go's. */
export class RegexSyntaxError extends Error {
  constructor(what: string, where: string) {
    super(`error parsing regexp: ${what}: \`${where}\``);
    this.name = 'RegexSyntaxError';
  }
}

export interface Flags {
  readonly fold: boolean;
  readonly multiLine: boolean;
  readonly dotAll: boolean;
  readonly ungreedy: boolean;
}

const simpleEscapes: ReadonlyMap<string, number> = new Map([
  ['a', 7],
  ['f', 12],
  ['n', 10],
  ['r', 13],
  ['t', 9],
  ['v', 11],
]);

/** A pattern and the place in it that is read next. */
export class Scanner {
  protected readonly text: readonly string[];
  protected readonly pattern: string;
  protected at = 0;
  protected flags: Flags = { fold: false, multiLine: false, dotAll: false, ungreedy: false };

  constructor(pattern: string) {
    this.pattern = pattern;
    this.text = Array.from(pattern);
  }

  /** What follows, as far as one construct can reach: the whole rest at every step would be quadratic. */
  protected rest(): string {
    return this.text.slice(this.at, this.at + 200).join('');
  }

  protected looksAt(text: string): boolean {
    return this.text[this.at] === text[0] && this.rest().startsWith(text);
  }

  /** The set of one character, under the flags that hold here. */
  protected literal(character: string): CharSet {
    const codePoint = character.codePointAt(0) ?? 0;
    const set = ranges(codePoint, codePoint);
    return this.flags.fold ? folded(set) : set;
  }

  /** `\d`, `\pL`, ... at the cursor, inside and outside of brackets. */
  protected classEscape(): CharSet | undefined {
    const letter = this.text[this.at + 1] ?? '';
    const perl = perlClasses.get(letter);
    if (perl !== undefined) {
      this.at += 2;
      return this.flags.fold ? folded(perl) : perl;
    }
    if (letter !== 'p' && letter !== 'P') return undefined;
    const match = /^\\[pP](?:\{(\^?)([^}]*)\}|([^{]))/u.exec(this.rest());
    const set = match === null ? undefined : unicodeClass(match[2] ?? match[3] ?? '');
    if (match === null || set === undefined) {
      throw new RegexSyntaxError('invalid character class range', match === null ? this.rest() : match[0]);
    }
    this.at += Array.from(match[0]).length;
    const inverted = (letter === 'P') !== (match[1] === '^');
    const cased = this.flags.fold ? folded(set) : set;
    return inverted ? not(cased) : cased;
  }

  protected escapedCodePoint(): number {
    const rest = this.rest();
    const letter = this.text[this.at + 1];
    if (letter === undefined) throw new RegexSyntaxError('trailing backslash at end of expression', '');
    const simple = simpleEscapes.get(letter);
    if (simple !== undefined) {
      this.at += 2;
      return simple;
    }
    const number = /^\\(?:x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,8})\}|(0[0-7]{0,2}|[1-7][0-7]{1,2}))/.exec(
      rest,
    );
    if (number !== null) {
      const value =
        number[3] === undefined
          ? Number.parseInt(number[1] ?? number[2] ?? '', 16)
          : Number.parseInt(number[3], 8);
      if (value <= 0x10ffff) {
        this.at += number[0].length;
        return value;
      }
    }
    if (letter.charCodeAt(0) < 0x80 && !/[A-Za-z0-9]/.test(letter)) {
      this.at += 2;
      return letter.charCodeAt(0);
    }
    throw new RegexSyntaxError('invalid escape sequence', `\\${letter}`);
  }

  protected charClass(): CharSet {
    const start = this.at++;
    const negated = this.text[this.at] === '^';
    if (negated) this.at++;
    const sets: CharSet[] = [];
    for (let first = true; first || this.text[this.at] !== ']'; first = false) {
      if (this.at >= this.text.length) {
        throw new RegexSyntaxError('missing closing ]', this.text.slice(start).join(''));
      }
      sets.push(this.#classItem());
    }
    this.at++;
    const set = union(sets);
    return negated ? not(set) : set;
  }

  #classItem(): CharSet {
    const posix = /^\[:(\^?)(\w*):\]/.exec(this.rest());
    if (posix !== null) {
      const named = posixClasses.get(posix[2] ?? '');
      if (named === undefined) throw new RegexSyntaxError('invalid character class range', posix[0]);
      this.at += posix[0].length;
      const cased = this.flags.fold ? folded(named) : named;
      return posix[1] === '^' ? not(cased) : cased;
    }
    if (this.text[this.at] === '\\') {
      const set = this.classEscape();
      if (set !== undefined) return set;
    }
    const start = this.at;
    const from = this.#classCodePoint();
    let to = from;
    if (
      this.text[this.at] === '-' &&
      this.text[this.at + 1] !== undefined &&
      this.text[this.at + 1] !== ']'
    ) {
      this.at++;
      to = this.#classCodePoint();
      if (to < from) {
        throw new RegexSyntaxError('invalid character class range', this.text.slice(start, this.at).join(''));
      }
    }
    return this.flags.fold ? folded(ranges(from, to)) : ranges(from, to);
  }

  #classCodePoint(): number {
    if (this.at >= this.text.length) throw new RegexSyntaxError('missing closing ]', this.pattern);
    if (this.text[this.at] === '\\') return this.escapedCodePoint();
    return this.text[this.at++]?.codePointAt(0) ?? 0;
  }
}
