/**
 * The syntax of Go's regular expressions (RE2), parsed into a tree, with the errors of Go's `regexp/syntax`.
 *
 * JavaScript's own engine is not used: its syntax differs (`(?i)`, `\z`, `[[:alpha:]]`, `\Q..\E`, `\pN` are
 * unknown to it, lookaheads and back references known), and it backtracks, so that a schema's pattern could be
 * made to run for years by one object. See https://github.com/google/re2/wiki/Syntax.
 *
 * @module
 */
import type { CharSet } from './charset.ts';
import { RegexSyntaxError, Scanner } from './scanner.ts';

export type Assertion = 'beginText' | 'endText' | 'beginLine' | 'endLine' | 'wordBoundary' | 'noWordBoundary';

export type RegexNode =
  | { readonly kind: 'empty' }
  | { readonly kind: 'char'; readonly set: CharSet }
  | { readonly kind: 'assert'; readonly assertion: Assertion }
  | { readonly kind: 'concat'; readonly nodes: readonly RegexNode[] }
  | { readonly kind: 'alternate'; readonly nodes: readonly RegexNode[] }
  | {
      readonly kind: 'repeat';
      readonly node: RegexNode;
      readonly min: number;
      /** `Infinity` for `*` and `+`. */
      readonly max: number;
      readonly greedy: boolean;
    };

const maxRepeat = 1_000;
/** Go refuses trees higher than this: `expression nests too deeply`. */
const maxDepth = 1_000;

const empty: RegexNode = { kind: 'empty' };

/** @throws {RegexSyntaxError} for what Go's `regexp.Compile` refuses. */
export function parseRegex(pattern: string): RegexNode {
  return new Parser(pattern).parse();
}

class Parser extends Scanner {
  parse(): RegexNode {
    const node = this.#alternation(0);
    if (this.at < this.text.length) throw new RegexSyntaxError('unexpected )', this.pattern);
    return node;
  }

  #alternation(depth: number): RegexNode {
    if (depth > maxDepth) throw new RegexSyntaxError('expression nests too deeply', this.pattern);
    const branches = [this.#concatenation(depth)];
    while (this.text[this.at] === '|') {
      this.at++;
      branches.push(this.#concatenation(depth));
    }
    return branches.length === 1 ? (branches[0] ?? empty) : { kind: 'alternate', nodes: branches };
  }

  #concatenation(depth: number): RegexNode {
    const nodes: RegexNode[] = [];
    while (this.at < this.text.length) {
      const character = this.text[this.at];
      if (character === '|' || character === ')') break;
      if (this.looksAt('\\Q')) {
        for (const literal of this.#quoted()) nodes.push({ kind: 'char', set: this.literal(literal) });
        // A repetition after \E belongs to the last quoted character.
        const last = nodes.pop();
        if (last !== undefined) nodes.push(this.#repetitions(last));
        continue;
      }
      const start = this.at;
      const atom = this.#atom(depth);
      // (?i) sets flags and matches nothing, so there is nothing to repeat either.
      if (atom === undefined) {
        if (/^(?:[*+?]|\{\d+(?:,\d*)?\})/.test(this.rest())) {
          throw new RegexSyntaxError('missing argument to repetition operator', this.text[this.at] ?? '');
        }
        continue;
      }
      nodes.push(this.#repetitions(atom, start));
    }
    if (nodes.length === 1) return nodes[0] ?? empty;
    return nodes.length === 0 ? empty : { kind: 'concat', nodes };
  }

  #quoted(): string[] {
    this.at += 2;
    const characters: string[] = [];
    while (this.at < this.text.length) {
      if (this.looksAt('\\E')) {
        this.at += 2;
        return characters;
      }
      characters.push(this.text[this.at++] ?? '');
    }
    return characters;
  }

  #repetitions(atom: RegexNode, start = this.at - 1): RegexNode {
    let node = atom;
    let operator = '';
    for (;;) {
      const from = this.at;
      const count = this.#repetition();
      if (count === undefined) return node;
      const written = this.text.slice(from, this.at).join('');
      // RE2 takes a** for a mistake.
      if (operator !== '') {
        throw new RegexSyntaxError('invalid nested repetition operator', operator + written);
      }
      operator = written;
      const greedy = count.lazy === this.flags.ungreedy;
      node = { kind: 'repeat', node, min: count.min, max: count.max, greedy };
      const isCount = written.startsWith('{');
      if (isCount && repeatSize(node) > maxRepeat) {
        throw new RegexSyntaxError(
          'invalid repeat count',
          count.min > maxRepeat || (count.max !== Infinity && count.max > maxRepeat) || count.max < count.min
            ? written
            : this.text.slice(start, this.at).join(''),
        );
      }
    }
  }

  #repetition(): { min: number; max: number; lazy: boolean } | undefined {
    const bounds = this.#bounds();
    if (bounds === undefined) return undefined;
    const lazy = this.text[this.at] === '?';
    if (lazy) this.at++;
    return { ...bounds, lazy };
  }

  #bounds(): { min: number; max: number } | undefined {
    switch (this.text[this.at] ?? '') {
      case '*':
        this.at++;
        return { min: 0, max: Infinity };
      case '+':
        this.at++;
        return { min: 1, max: Infinity };
      case '?':
        this.at++;
        return { min: 0, max: 1 };
      case '{': {
        const match = /^\{(\d+)(?:(,)(\d*))?\}/.exec(this.rest());
        if (match === null) return undefined;
        const [written, low = '', comma, high = ''] = match;
        const min = Number(low);
        const max = comma === undefined ? min : high === '' ? Infinity : Number(high);
        if (min > maxRepeat || (max !== Infinity && (max > maxRepeat || max < min))) {
          throw new RegexSyntaxError('invalid repeat count', written);
        }
        this.at += written.length;
        return { min, max };
      }
      default:
        return undefined;
    }
  }

  #atom(depth: number): RegexNode | undefined {
    const character = this.text[this.at] ?? '';
    switch (character) {
      case '(':
        return this.#group(depth);
      case '[':
        return { kind: 'char', set: this.charClass() };
      case '.':
        this.at++;
        return { kind: 'char', set: this.flags.dotAll ? () => true : (codePoint) => codePoint !== 0x0a };
      case '^':
        this.at++;
        return { kind: 'assert', assertion: this.flags.multiLine ? 'beginLine' : 'beginText' };
      case '$':
        this.at++;
        return { kind: 'assert', assertion: this.flags.multiLine ? 'endLine' : 'endText' };
      case '*':
      case '+':
      case '?':
        throw new RegexSyntaxError('missing argument to repetition operator', character);
      case '{':
        if (this.#bounds() !== undefined) {
          throw new RegexSyntaxError('missing argument to repetition operator', this.pattern);
        }
        break;
      case '\\':
        return this.#escape();
      default:
    }
    this.at++;
    return { kind: 'char', set: this.literal(character) };
  }

  #group(depth: number): RegexNode | undefined {
    const before = this.flags;
    const rest = this.rest();
    if (rest.startsWith('(?')) {
      const name = /^\(\?P?<([^>]*)>/.exec(rest);
      if (name !== null && !/^\(\?<[=!]/.test(rest)) {
        if (!/^\w+$/.test(name[1] ?? '')) throw new RegexSyntaxError('invalid named capture', name[0]);
        this.at += name[0].length;
      } else {
        const flags = /^\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])/.exec(rest);
        const letters = flags === null ? '' : (flags[1] ?? '') + (flags[2] ?? '');
        if (flags === null || !/^[imsU]*$/.test(letters) || flags[0] === '(?)') {
          throw new RegexSyntaxError(
            'invalid or unsupported Perl syntax',
            rest.slice(0, /^\(\?<[=!]/.test(rest) ? 4 : 3),
          );
        }
        this.at += flags[0].length;
        this.#setFlags(flags[1] ?? '', true);
        this.#setFlags(flags[2] ?? '', false);
        if (flags[3] === ')') return undefined;
      }
    } else this.at++;
    const node = this.#alternation(depth + 1);
    if (this.text[this.at] !== ')') throw new RegexSyntaxError('missing closing )', this.pattern);
    this.at++;
    this.flags = before;
    return node;
  }

  #setFlags(letters: string, on: boolean): void {
    for (const letter of letters) {
      if (letter === 'i') this.flags = { ...this.flags, fold: on };
      if (letter === 'm') this.flags = { ...this.flags, multiLine: on };
      if (letter === 's') this.flags = { ...this.flags, dotAll: on };
      if (letter === 'U') this.flags = { ...this.flags, ungreedy: on };
    }
  }

  #escape(): RegexNode {
    const set = this.classEscape();
    if (set !== undefined) return { kind: 'char', set };
    const assertion = assertions.get(this.text[this.at + 1] ?? '');
    if (assertion !== undefined) {
      this.at += 2;
      return { kind: 'assert', assertion };
    }
    return { kind: 'char', set: this.literal(String.fromCodePoint(this.escapedCodePoint())) };
  }
}

const assertions: ReadonlyMap<string, Assertion> = new Map([
  ['A', 'beginText'],
  ['z', 'endText'],
  ['b', 'wordBoundary'],
  ['B', 'noWordBoundary'],
]);

/** How often the innermost part of nested counts is copied; Go allows 1000 in total. */
function repeatSize(node: RegexNode): number {
  if (node.kind === 'repeat') {
    const times = node.max === Infinity ? Math.max(1, node.min) : Math.max(1, node.max);
    return times * repeatSize(node.node);
  }
  if (node.kind !== 'concat' && node.kind !== 'alternate') return 1;
  return node.nodes.reduce((most, part) => Math.max(most, repeatSize(part)), 1);
}
