/**
 * Parses the part of PCRE2's syntax that a finite automaton can decide, over bytes (one character each, latin1), to a
 * tree of {@link RegexNode}. Only ASCII letters have case, as in PCRE2 without UTF. Constructs with memory or
 * look-around (back references, look-around, atomic groups, ...) are refused by name: {@link PcreUnsupportedError}.
 *
 * Source: pcre2pattern(3).
 */
import { type CharSet, not, posixClasses, ranges, union } from './charset.ts';
import { classEscapes, escapedByte, PcreSyntaxError, PcreUnsupportedError } from './pcre-escape.ts';
import type { RegexNode } from './program.ts';

export { PcreSyntaxError, PcreUnsupportedError } from './pcre-escape.ts';

interface Flags {
  readonly fold: boolean;
  readonly dotAll: boolean;
}

/** Limit of nested parentheses, as in PCRE2 (PARENS_NEST_LIMIT). */
const maxDepth = 250;
const maxRepeat = 65_535;

const empty: RegexNode = { kind: 'empty' };

/**
 * @param pattern one character for each byte
 * @throws {PcreUnsupportedError} for what only PCRE2 supports
 * @throws {PcreSyntaxError} for what PCRE2 refuses
 */
export function parsePcre(pattern: string): RegexNode {
  return new PcreParser(pattern).parse();
}

class PcreParser {
  readonly #text: string;
  #at = 0;
  #flags: Flags = { fold: false, dotAll: false };

  constructor(pattern: string) {
    this.#text = pattern;
  }

  parse(): RegexNode {
    const node = this.#alternation(0);
    if (this.#at < this.#text.length) throw new PcreSyntaxError('unmatched closing parenthesis', this.#at);
    return node;
  }

  #alternation(depth: number): RegexNode {
    if (depth > maxDepth) throw new PcreSyntaxError('parentheses are too deeply nested', this.#at);
    const branches = [this.#concatenation(depth)];
    while (this.#text[this.#at] === '|') {
      this.#at++;
      branches.push(this.#concatenation(depth));
    }
    return branches.length === 1 ? (branches[0] ?? empty) : { kind: 'alternate', nodes: branches };
  }

  #concatenation(depth: number): RegexNode {
    const nodes: RegexNode[] = [];
    while (this.#at < this.#text.length) {
      const character = this.#text[this.#at];
      if (character === '|' || character === ')') break;
      if (this.#text.startsWith('\\E', this.#at)) {
        this.#at += 2;
        continue;
      }
      if (this.#text.startsWith('\\Q', this.#at)) {
        const end = this.#text.indexOf('\\E', this.#at + 2);
        const quoted = this.#text.slice(this.#at + 2, end === -1 ? undefined : end);
        for (const each of quoted) nodes.push(this.#literal(each.charCodeAt(0)));
        this.#at = end === -1 ? this.#text.length : end + 2;
        const last = nodes.pop();
        if (last !== undefined) nodes.push(this.#repeated(last));
        continue;
      }
      const from = this.#at;
      const atom = this.#atom(depth);
      // An assertion can only be repeated within a group.
      if (this.#isAssertion(from) && this.#bounds() !== undefined)
        throw new PcreSyntaxError('quantifier does not follow a repeatable item', from);
      if (atom !== undefined) nodes.push(this.#repeated(atom));
    }
    if (nodes.length === 1) return nodes[0] ?? empty;
    return nodes.length === 0 ? empty : { kind: 'concat', nodes };
  }

  #literal(byte: number): RegexNode {
    const set = (this.#flags.fold ? foldedLiterals : literals)[byte];
    if (set === undefined) throw new PcreSyntaxError(`character ${byte} is not a byte`, this.#at);
    return { kind: 'char', set };
  }

  #isAssertion(at: number): boolean {
    const character = this.#text[at] ?? '';
    return character === '\\' ? assertions.has(this.#text[at + 1] ?? '') : '^$'.includes(character);
  }

  #repeated(atom: RegexNode): RegexNode {
    const start = this.#at;
    const bounds = this.#bounds();
    if (bounds === undefined) return atom;
    const next = this.#text[this.#at];
    if (next === '+') throw new PcreUnsupportedError('a possessive quantifier', this.#at);
    if (next === '?') this.#at++;
    const after = this.#at;
    if (this.#bounds() !== undefined) {
      throw new PcreSyntaxError('quantifier does not follow a repeatable item', after);
    }
    this.#at = after;
    if (bounds.max < bounds.min) throw new PcreSyntaxError('numbers out of order in {} quantifier', start);
    if (bounds.min > maxRepeat || (bounds.max !== Infinity && bounds.max > maxRepeat)) {
      throw new PcreSyntaxError('number too big in {} quantifier', start);
    }
    return { kind: 'repeat', node: atom, ...bounds };
  }

  #bounds(): { min: number; max: number } | undefined {
    switch (this.#text[this.#at] ?? '') {
      case '*':
        this.#at++;
        return { min: 0, max: Infinity };
      case '+':
        this.#at++;
        return { min: 1, max: Infinity };
      case '?':
        this.#at++;
        return { min: 0, max: 1 };
      case '{': {
        const match = /^\{(\d{1,9})(?:(,)(\d{0,9}))?\}/.exec(this.#text.slice(this.#at, this.#at + 24));
        if (match === null) return undefined;
        this.#at += match[0].length;
        const min = Number(match[1]);
        return { min, max: match[2] === undefined ? min : match[3] === '' ? Infinity : Number(match[3]) };
      }
      default:
        return undefined;
    }
  }

  #atom(depth: number): RegexNode | undefined {
    const at = this.#at;
    const character = this.#text[at] ?? '';
    switch (character) {
      case '(':
        return this.#group(depth);
      case '[':
        return { kind: 'char', set: this.#class() };
      case '.':
        this.#at++;
        return { kind: 'char', set: this.#flags.dotAll ? anyByte : anyButNewline };
      case '^':
        this.#at++;
        return { kind: 'assert', assertion: 'beginText' };
      case '$':
        this.#at++;
        return dollar;
      case '\\':
        return this.#escape();
      default:
    }
    if (this.#bounds() !== undefined)
      throw new PcreSyntaxError('quantifier does not follow a repeatable item', at);
    this.#at++;
    return this.#literal(character.charCodeAt(0));
  }

  #escape(): RegexNode {
    const at = this.#at;
    const letter = this.#text[at + 1] ?? '';
    const assertion = assertions.get(letter);
    if (assertion !== undefined) {
      this.#at += 2;
      return assertion;
    }
    const set = classEscapes.get(letter);
    if (set !== undefined) {
      this.#at += 2;
      return { kind: 'char', set: letter === 'C' ? anyByte : set };
    }
    const escaped = escapedByte(this.#text, at, false);
    this.#at = escaped.end;
    return this.#literal(escaped.byte);
  }

  #group(depth: number): RegexNode | undefined {
    const start = this.#at;
    const before = this.#flags;
    const rest = this.#text.slice(start, start + 80);
    if (rest.startsWith('(*')) throw new PcreUnsupportedError('a verb or named group (*...)', start);
    if (!rest.startsWith('(?')) this.#at++;
    else if (rest.startsWith('(?#')) {
      const end = this.#text.indexOf(')', start);
      if (end === -1) throw new PcreSyntaxError('missing ) after (?# comment', start);
      this.#at = end + 1;
      return undefined;
    } else {
      const name = /^\(\?(?:P?<([A-Za-z_]\w*)>|'([A-Za-z_]\w*)')/.exec(rest);
      const flags = /^\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])/.exec(rest);
      if (name !== null) this.#at += name[0].length;
      else if (rest.startsWith('(?|')) this.#at += 3;
      else if (flags === null || rest.startsWith('(?R)')) throw this.#refusedGroup(rest);
      else {
        this.#setFlags(flags[1] ?? '', true);
        this.#setFlags(flags[2] ?? '', false);
        this.#at += flags[0].length;
        if (flags[3] === ')') return undefined;
      }
    }
    const node = this.#alternation(depth + 1);
    if (this.#text[this.#at] !== ')')
      throw new PcreSyntaxError('missing closing parenthesis', this.#text.length);
    this.#at++;
    this.#flags = before;
    return node;
  }

  #refusedGroup(rest: string): PcreSyntaxError {
    const at = this.#at;
    if (/^\(\?<?[=!]/.test(rest)) {
      return new PcreUnsupportedError(rest[2] === '<' ? 'a look-behind' : 'a look-ahead', at);
    }
    if (rest.startsWith('(?>')) return new PcreUnsupportedError('an atomic group', at);
    if (/^\(\?(?:[-+]?\d|R|&|P[=>])/.test(rest)) return new PcreUnsupportedError('a recursion', at);
    if (rest.startsWith('(?(')) return new PcreUnsupportedError('a condition', at);
    return new PcreSyntaxError('unrecognized character after (? or (?-', at + 2);
  }

  #setFlags(letters: string, on: boolean): void {
    for (const letter of letters) {
      if (letter === 'i') this.#flags = { ...this.#flags, fold: on };
      else if (letter === 's') this.#flags = { ...this.#flags, dotAll: on };
      // These letters change which of several matches is found, or what is captured, which does not matter here.
      else if ('UJn'.includes(letter)) continue;
      else if ('mx'.includes(letter)) throw new PcreUnsupportedError(`the option (?${letter})`, this.#at);
      else throw new PcreSyntaxError('unrecognized character after (? or (?-', this.#at);
    }
  }

  #class(): CharSet {
    const start = this.#at++;
    const negated = this.#text[this.#at] === '^';
    if (negated) this.#at++;
    const sets: CharSet[] = [];
    for (let first = true; first || this.#text[this.#at] !== ']'; first = false) {
      if (this.#at >= this.#text.length) {
        throw new PcreSyntaxError('missing terminating ] for character class', start);
      }
      sets.push(this.#classItem());
    }
    this.#at++;
    const set = this.#flags.fold ? folded(union(sets)) : union(sets);
    return negated ? not(set) : set;
  }

  #classItem(): CharSet {
    const posix = /^\[([:.=])(\^?)(\w*)\1\]/.exec(this.#text.slice(this.#at, this.#at + 20));
    if (posix !== null) {
      if (posix[1] !== ':') throw new PcreSyntaxError('POSIX collating elements are not supported', this.#at);
      const named = posixClasses.get(posix[3] ?? '');
      if (named === undefined) throw new PcreSyntaxError('unknown POSIX class name', this.#at);
      this.#at += posix[0].length;
      return posix[2] === '^' ? not(named) : named;
    }
    const start = this.#at;
    const from = this.#classByte();
    if (typeof from !== 'number') return from;
    const next = this.#text[this.#at + 1];
    if (this.#text[this.#at] !== '-' || next === undefined || next === ']') return ranges(from, from);
    const hyphen = this.#at++;
    if (/^\[[:.=]/.test(this.#text.slice(this.#at, this.#at + 2))) {
      this.#at = hyphen;
      return ranges(from, from);
    }
    const to = this.#classByte();
    // In [a-\d], the hyphen is a member.
    if (typeof to !== 'number') return union([ranges(from, from), ranges(0x2d, 0x2d), to]);
    if (to < from) throw new PcreSyntaxError('range out of order in character class', start);
    return ranges(from, to);
  }

  #classByte(): number | CharSet {
    if (this.#text[this.#at] !== '\\') return this.#text.charCodeAt(this.#at++);
    const letter = this.#text[this.#at + 1] ?? '';
    const set = letter === 'C' || letter === 'N' ? undefined : classEscapes.get(letter);
    if (set !== undefined) {
      this.#at += 2;
      return set;
    }
    const escaped = escapedByte(this.#text, this.#at, true);
    this.#at = escaped.end;
    return escaped.byte;
  }
}

/** The meaning of single characters and assertions of PCRE2's syntax, over bytes. */
const newline = ranges(0x0a, 0x0a);
const anyByte: CharSet = () => true;
const anyButNewline = not(newline);
const literals = Array.from({ length: 256 }, (_, byte) => ranges(byte, byte));
const foldedLiterals = literals.map((set, byte) => foldedAscii(set, byte));

function foldedAscii(set: CharSet, byte: number): CharSet {
  const isLetter = (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a);
  return isLetter ? ranges(byte, byte, byte ^ 0x20, byte ^ 0x20) : set;
}

function folded(set: CharSet): CharSet {
  return (byte) => {
    if (set(byte)) return true;
    const lower = byte | 0x20;
    return lower >= 0x61 && lower <= 0x7a && set(byte ^ 0x20);
  };
}

/** `$` and `\Z`: the end of the text, or a newline at its end. Nothing sensible can follow, so the newline may be consumed. */
const dollar: RegexNode = {
  kind: 'alternate',
  nodes: [
    { kind: 'assert', assertion: 'endText' },
    {
      kind: 'concat',
      nodes: [
        { kind: 'char', set: newline },
        { kind: 'assert', assertion: 'endText' },
      ],
    },
  ],
};

const assertions: ReadonlyMap<string, RegexNode> = new Map<string, RegexNode>([
  ['A', { kind: 'assert', assertion: 'beginText' }],
  ['G', { kind: 'assert', assertion: 'beginText' }],
  ['z', { kind: 'assert', assertion: 'endText' }],
  ['Z', dollar],
  ['b', { kind: 'assert', assertion: 'wordBoundary' }],
  ['B', { kind: 'assert', assertion: 'noWordBoundary' }],
]);
