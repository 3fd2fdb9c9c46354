/** Reads one line of aide.conf, part by part. */
import { fault, type Fault, type Position, type Source } from './source.ts';
import type { Expression, Restriction, Term, Text } from './syntax.ts';

/**
 * An error in a line, with its place: caught by the parser, which reports it and continues with the next
 * line.
 */
export class LineError extends Error {
  readonly at: Position;
  readonly what: Fault;
  readonly next: string;
  constructor(at: Position, what: Fault, next: string) {
    super(what.text);
    this.name = 'LineError';
    this.at = at;
    this.what = what;
    this.next = next;
  }
}

const isBlank = (character: string | undefined): boolean =>
  character === ' ' || character === '\t' || character === '\r';

export class Line {
  readonly source: Source;
  readonly number: number;
  readonly start: number;
  /** Offset of the end of the line, without trailing blanks. */
  readonly end: number;
  /** Current offset in the text of the source. */
  at: number;

  constructor(source: Source, number: number, start: number, end: number) {
    this.source = source;
    this.number = number;
    this.start = start;
    let last = end;
    // An escaped blank belongs to the text before it.
    while (last > start && isBlank(source.text[last - 1]) && source.text[last - 2] !== '\\') last--;
    this.end = last;
    this.at = start;
    this.skipBlanks();
  }

  get rest(): string {
    return this.source.text.slice(this.at, this.end);
  }

  get isAtEnd(): boolean {
    return this.at >= this.end;
  }

  position(from = this.at, end = this.end): Position {
    return { source: this.source, line: this.number, column: from - this.start + 1, offset: from, end };
  }

  /** Returns whether there were any blanks. */
  skipBlanks(): boolean {
    const from = this.at;
    while (this.at < this.end && isBlank(this.source.text[this.at])) this.at++;
    return this.at > from;
  }

  /** Takes the text here that `pattern` matches; `undefined` if it does not match. The pattern must start with `^`. */
  take(pattern: RegExp): string | undefined {
    const match = pattern.exec(this.rest)?.[0];
    if (match !== undefined) this.at += match.length;
    return match;
  }

  /** @throws {LineError} if anything but blanks follows */
  expectEnd(next: string): void {
    this.skipBlanks();
    if (!this.isAtEnd) throw new LineError(this.position(), fault`unexpected '${this.rest}'`, next);
  }

  /** Takes a text, such as a path or a value: up to an unescaped blank. `undefined` at the end of the line. */
  text(): Text | undefined {
    const { text } = this.source;
    const from = this.at;
    const parts: ({ literal: string } | { variable: string })[] = [];
    let literal = '';
    while (this.at < this.end) {
      // Take plain text in one piece: adding single characters would make the string many times as large in memory.
      const plain = this.take(/^[^ \t\r\0\\@]+/);
      if (plain !== undefined) {
        literal += plain;
        continue;
      }
      const character = text[this.at] ?? '';
      const next = text[this.at + 1] ?? '';
      if (isBlank(character)) break;
      if (character === '\0') {
        throw new LineError(this.position(), fault`unexpected NUL`, 'Remove it: paths cannot contain NUL');
      }
      if (character === '\\' && (next === ' ' || next === '@' || next === '\\')) {
        literal += next;
        this.at += 2;
        continue;
      }
      const variable = character === '@' ? this.take(/^@@\{[A-Za-z0-9_]+\}/) : undefined;
      if (variable === undefined) {
        literal += character;
        this.at++;
        continue;
      }
      if (literal !== '') parts.push({ literal });
      literal = '';
      parts.push({ variable: variable.slice(3, -1) });
    }
    if (this.at === from) return undefined;
    if (literal !== '') parts.push({ literal });
    return { at: this.position(from, this.at), parts };
  }

  /** @throws {LineError} at the end of the line */
  needText(what: Fault, next: string): Text {
    this.skipBlanks();
    const text = this.text();
    if (text === undefined) throw new LineError(this.position(), fault`${what} is missing`, next);
    return text;
  }

  #name(what: Fault): { at: Position; name: string } {
    this.skipBlanks();
    const from = this.at;
    const name = this.take(/^[A-Za-z0-9_%>]+/);
    if (name !== undefined) return { at: this.position(from, this.at), name };
    throw this.#unexpected(what);
  }

  #unexpected(what: Fault): LineError {
    const found = this.isAtEnd ? fault`the line ends` : fault`found '${this.rest}'`;
    return new LineError(
      this.position(),
      fault`${found} where ${what} is expected`,
      this.rest.startsWith('#')
        ? 'Put the comment on a line of its own'
        : 'Write attributes and groups with + and - between them, as in p+u+g',
    );
  }

  /** Parses an expression such as `p+u-G`, up to the end of the line. */
  expression(first = this.#name(fault`an attribute or a group`)): Expression {
    const terms: Term[] = [{ ...first, operator: '+' }];
    this.skipBlanks();
    while (!this.isAtEnd) {
      const operator = this.take(/^[+-]/);
      if (operator !== '+' && operator !== '-') throw this.#unexpected(fault`+ or -`);
      terms.push({ ...this.#name(fault`an attribute or a group`), operator });
      this.skipBlanks();
    }
    const last = terms.at(-1)?.at ?? first.at;
    return { at: { ...first.at, end: last.end }, terms };
  }

  /** Parses the part after the path of a rule: `[f,d[=tmpfs]] p+u`; for a negative rule, only the types. */
  afterPath(isNegative: boolean): {
    restriction: Restriction | undefined;
    expression: Expression | undefined;
  } {
    this.skipBlanks();
    if (this.isAtEnd && isNegative) return { restriction: undefined, expression: undefined };
    const from = this.at;
    const types: { at: Position; name: string }[] = [];
    if (!this.rest.startsWith('=')) {
      types.push(this.#name(isNegative ? fault`a file type` : fault`a file type, an attribute or a group`));
      this.skipBlanks();
      while (this.take(/^,/) !== undefined) {
        types.push(this.#name(fault`a file type`));
        this.skipBlanks();
      }
    }
    const fileSystem = this.take(/^=[A-Za-z0-9_.-]*/)?.slice(1);
    const end = this.at;
    this.skipBlanks();
    const [first] = types;
    const isExpression =
      types.length === 1 && fileSystem === undefined && (this.isAtEnd || /^[+-]/.test(this.rest));
    if (!isNegative && isExpression) return { restriction: undefined, expression: this.expression(first) };
    const restriction: Restriction = { at: this.position(from, end), types, fileSystem };
    if (!isNegative) return { restriction, expression: this.expression() };
    this.expectEnd('A negative rule has no attributes: remove them');
    return { restriction, expression: undefined };
  }
}
