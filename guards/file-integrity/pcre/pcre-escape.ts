/** Parses what follows a backslash in PCRE2's syntax, over bytes. */
import { digit, not, ranges, word, type CharSet } from './charset.ts';

/** A pattern that PCRE2 refuses; `at` is the index in the pattern. */
export class PcreSyntaxError extends Error {
  readonly at: number;
  constructor(message: string, at: number) {
    super(message);
    this.name = 'PcreSyntaxError';
    this.at = at;
  }
}

/** A pattern that PCRE2 accepts but this engine does not support. */
export class PcreUnsupportedError extends PcreSyntaxError {
  constructor(feature: string, at: number) {
    super(feature, at);
    this.name = 'PcreUnsupportedError';
  }
}

// Unlike RE2's, PCRE2's \s includes the vertical tab (since 8.34).
const space = ranges(0x09, 0x0d, 0x20, 0x20);
const horizontal = ranges(0x09, 0x09, 0x20, 0x20, 0xa0, 0xa0);
const vertical = ranges(0x0a, 0x0d, 0x85, 0x85);

export const classEscapes: ReadonlyMap<string, CharSet> = new Map([
  ['d', digit],
  ['D', not(digit)],
  ['w', word],
  ['W', not(word)],
  ['s', space],
  ['S', not(space)],
  ['h', horizontal],
  ['H', not(horizontal)],
  ['v', vertical],
  ['V', not(vertical)],
  ['N', not(ranges(0x0a, 0x0a))],
  ['C', () => true],
]);

const simple: ReadonlyMap<string, number> = new Map([
  ['a', 7],
  ['e', 27],
  ['f', 12],
  ['n', 10],
  ['r', 13],
  ['t', 9],
]);

const unsupported: ReadonlyMap<string, string> = new Map([
  ['g', 'a back reference or a recursion'],
  ['k', 'a back reference'],
  ['K', 'a match that starts late (\\K)'],
  ['p', 'a Unicode property'],
  ['P', 'a Unicode property'],
  ['R', 'any newline (\\R)'],
  ['X', 'a grapheme cluster (\\X)'],
  ['Q', 'a quotation (\\Q) in a character class'],
]);

/**
 * The byte for the escape whose backslash is at index `at`, and the index where the escape ends.
 *
 * @throws {PcreSyntaxError} {PcreUnsupportedError}
 */
export function escapedByte(text: string, at: number, inClass: boolean): { byte: number; end: number } {
  const letter = text[at + 1];
  if (letter === undefined) throw new PcreSyntaxError('\\ at end of pattern', at + 1);
  const known = inClass && letter === 'b' ? 8 : simple.get(letter);
  if (known !== undefined) return { byte: known, end: at + 2 };
  const feature = unsupported.get(letter);
  if (feature !== undefined) throw new PcreUnsupportedError(feature, at);
  const rest = text.slice(at, at + 16);
  if (letter === 'c') {
    const control = (text[at + 2] ?? '').toUpperCase();
    if (!/^[\x20-\x7e]$/.test(control))
      throw new PcreSyntaxError('\\c must be followed by a printable ASCII character', at);
    return { byte: control.charCodeAt(0) ^ 0x40, end: at + 3 };
  }
  const braces = /^\\(?:x\{([0-9A-Fa-f]+)\}|o\{([0-7]+)\})/.exec(rest);
  if (braces !== null) {
    const byte =
      braces[1] === undefined ? Number.parseInt(braces[2] ?? '', 8) : Number.parseInt(braces[1], 16);
    if (byte > 0xff)
      throw new PcreSyntaxError('character code point value in \\x{} or \\o{} is too large', at);
    return { byte, end: at + braces[0].length };
  }
  const hexadecimal = /^\\x([0-9A-Fa-f]{0,2})/.exec(rest);
  if (hexadecimal !== null) {
    return { byte: Number.parseInt(`0${hexadecimal[1] ?? ''}`, 16), end: at + hexadecimal[0].length };
  }
  const octal = (inClass ? /^\\([0-7]{1,3})/ : /^\\(0[0-7]{0,2})/).exec(rest);
  if (octal !== null) {
    const byte = Number.parseInt(octal[1] ?? '', 8);
    if (byte > 0xff) throw new PcreSyntaxError('octal value is greater than \\377', at);
    return { byte, end: at + octal[0].length };
  }
  if (/[1-9]/.test(letter)) throw new PcreUnsupportedError('a back reference', at);
  if (/[A-Za-z]/.test(letter)) throw new PcreSyntaxError('unrecognized character follows \\', at + 1);
  return { byte: letter.charCodeAt(0), end: at + 2 };
}
