/** Parses expressions into syntax trees (cel-go `parser/gen/CEL.g4`, `parser/parser.go`). */
import { tokensOf, type Token } from './lexer.ts';
import { CelSyntaxError, type ASTNode, type BinaryOperator } from './syntax.ts';

/** The nesting limit of expressions, as in cel-go. */
const maxDepth = 250;
/** Longer expressions are rejected before they are parsed. */
const maxLength = 64 * 1024;

/** Reserved names: allowed for fields, but not for variables and functions. */
const reserved: ReadonlySet<string> = new Set(
  'as break const continue else for function if import let loop package namespace return var void while'.split(
    ' ',
  ),
);

const relations: ReadonlySet<string> = new Set(['<', '<=', '>=', '>', '==', '!=', 'in']);
const sums: ReadonlySet<string> = new Set(['+', '-']);
const products: ReadonlySet<string> = new Set(['*', '/', '%']);

const operands =
  "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/** @throws {CelSyntaxError} */
export function parse(source: string): ASTNode {
  if (source.length > maxLength)
    throw new CelSyntaxError(
      0,
      `expression code point size exceeds limit: size: ${source.length}, limit ${maxLength}`,
    );
  return new Parser(tokensOf(source)).whole();
}

class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;
  #depth = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  get #next(): Token {
    return this.#tokens[this.#at] ?? { kind: 'end', text: '', pos: 0 };
  }

  #is(text: string): boolean {
    const { kind, text: found } = this.#next;
    return kind === 'sign' && found === text;
  }

  /** Consumes the sign and returns its position; `undefined` if another token is next. */
  #take(text: string): number | undefined {
    if (!this.#is(text)) return undefined;
    const { pos } = this.#next;
    this.#at++;
    return pos;
  }

  #expect(text: string): void {
    if (this.#take(text) !== undefined) return;
    const { kind, pos } = this.#next;
    throw new CelSyntaxError(
      pos,
      kind === 'end' ? `missing '${text}' at '<EOF>'` : `mismatched input ${this.#found} expecting '${text}'`,
    );
  }

  get #found(): string {
    return `'${this.#next.text === '' ? '<EOF>' : this.#next.text}'`;
  }

  whole(): ASTNode {
    const node = this.#expression();
    if (this.#next.kind !== 'end')
      throw new CelSyntaxError(this.#next.pos, `extraneous input ${this.#found} expecting <EOF>`);
    return node;
  }

  #expression(): ASTNode {
    if (++this.#depth > maxDepth)
      throw new CelSyntaxError(0, `expression recursion limit exceeded: ${maxDepth}`);
    const condition = this.#logic('||', () => this.#logic('&&', () => this.#relation()));
    const pos = this.#take('?');
    let node = condition;
    if (pos !== undefined) {
      const yes = this.#logic('||', () => this.#logic('&&', () => this.#relation()));
      this.#expect(':');
      node = { op: '?:', args: [condition, yes, this.#expression()], pos };
    }
    this.#depth--;
    return node;
  }

  /** A chain of one operator. The tree is balanced, so that a long chain is not a deep tree. */
  #logic(op: '||' | '&&', part: () => ASTNode): ASTNode {
    const parts = [part()];
    const positions: number[] = [];
    for (let pos = this.#take(op); pos !== undefined; pos = this.#take(op)) {
      positions.push(pos);
      parts.push(part());
    }
    const balanced = (from: number, to: number): ASTNode => {
      const [only] = parts.slice(from, from + 1);
      if (to - from === 1 && only !== undefined) return only;
      const middle = (from + to + 1) >> 1;
      return { op, args: [balanced(from, middle), balanced(middle, to)], pos: positions[middle - 1] ?? 0 };
    };
    return balanced(0, parts.length);
  }

  /** Operators of one precedence, left-associative. */
  #chain(operators: ReadonlySet<string>, part: () => ASTNode): ASTNode {
    let left = part();
    while (this.#next.kind === 'sign' && operators.has(this.#next.text)) {
      const { text, pos } = this.#next;
      this.#at++;
      left = { op: text as BinaryOperator, args: [left, part()], pos };
    }
    return left;
  }

  #relation(): ASTNode {
    return this.#chain(relations, () => this.#chain(sums, () => this.#chain(products, () => this.#unary())));
  }

  #unary(): ASTNode {
    for (const sign of ['!', '-'] as const) {
      const first = this.#next.pos;
      let count = 0;
      while (this.#take(sign) !== undefined) count++;
      if (count === 0) continue;
      const { value } = this.#next;
      // The sign belongs to the literal, because the lowest integer has no positive counterpart.
      if (sign === '-' && (typeof value === 'bigint' || typeof value === 'number')) {
        this.#at++;
        const literal: ASTNode = { op: 'value', args: -value, pos: first };
        const operand = this.#members(literal);
        return count % 2 === 1 ? operand : { op: '-_', args: operand, pos: first };
      }
      const operand = this.#members(this.#primary());
      if (count % 2 === 0) return operand;
      return { op: sign === '!' ? '!_' : '-_', args: operand, pos: first };
    }
    return this.#members(this.#primary());
  }

  #members(operand: ASTNode): ASTNode {
    let node = operand;
    for (;;) {
      const dot = this.#take('.');
      if (dot !== undefined) {
        node = this.#member(node, dot);
        continue;
      }
      const bracket = this.#take('[');
      if (bracket === undefined) return node;
      const op = this.#take('?') === undefined ? '[]' : '[?]';
      const index = this.#expression();
      this.#expect(']');
      node = { op, args: [node, index], pos: bracket };
    }
  }

  #member(holder: ASTNode, dot: number): ASTNode {
    const optional = this.#take('?') !== undefined;
    const name = this.#identifier();
    if (optional) return { op: '.?', args: [holder, name], pos: dot };
    const paren = this.#take('(');
    if (paren === undefined) return { op: '.', args: [holder, name], pos: dot };
    return { op: 'rcall', args: [name, holder, this.#arguments()], pos: paren };
  }

  #identifier(): string {
    const { kind, text, pos } = this.#next;
    // At the end of the expression, `text` is ''.
    if (kind !== 'identifier') throw new CelSyntaxError(pos, `no viable alternative at input '.${text}'`);
    this.#at++;
    return text;
  }

  #arguments(): ASTNode[] {
    const args: ASTNode[] = [];
    if (this.#take(')') !== undefined) return args;
    do args.push(this.#expression());
    while (this.#take(',') !== undefined);
    this.#expect(')');
    return args;
  }

  #primary(): ASTNode {
    const { kind, text, pos, value } = this.#next;
    if (kind === 'literal' && value !== undefined) {
      this.#at++;
      if (value === 2n ** 63n) throw new CelSyntaxError(pos, 'invalid int literal');
      return { op: 'value', args: value, pos };
    }
    if (kind === 'identifier') return this.#named();
    if (this.#take('(') !== undefined) {
      const inner = this.#expression();
      this.#expect(')');
      return inner;
    }
    if (this.#take('[') !== undefined) {
      const { entries, optional } = this.#entries(']', () => this.#expression());
      return { op: 'list', args: entries, pos, optional };
    }
    if (this.#take('{') !== undefined) return this.#map(pos);
    // `.name` means a name outside of any container. There are no containers here, so it is the same as `name`.
    if (this.#take('.') !== undefined && this.#next.kind === 'identifier') return this.#named();
    throw new CelSyntaxError(pos, `mismatched input '${text === '' ? '<EOF>' : text}' expecting ${operands}`);
  }

  /** A variable, a call, or an object of a type. */
  #named(): ASTNode {
    const { text: name, pos } = this.#next;
    this.#at++;
    if (reserved.has(name)) throw new CelSyntaxError(pos, `reserved identifier: ${name}`);
    const paren = this.#take('(');
    if (paren !== undefined) return { op: 'call', args: [name, this.#arguments()], pos: paren };
    return this.#message(name) ?? { op: 'id', args: name, pos };
  }

  /** Parses `a.b.C{...}`; `undefined` if no `{` follows the names. */
  #message(first: string): ASTNode | undefined {
    let ahead = this.#at;
    let type = first;
    const isSign = (at: number, text: string): boolean =>
      this.#tokens[at]?.kind === 'sign' && this.#tokens[at]?.text === text;
    while (isSign(ahead, '.') && this.#tokens[ahead + 1]?.kind === 'identifier') {
      type += `.${this.#tokens[ahead + 1]?.text}`;
      ahead += 2;
    }
    if (!isSign(ahead, '{')) return undefined;
    this.#at = ahead;
    const pos = this.#take('{') ?? 0;
    const { entries, optional } = this.#entries('}', () => {
      const field = this.#fieldName();
      this.#expect(':');
      return [field, this.#expression()] as const;
    });
    return { op: 'message', args: [type, entries], pos, optional };
  }

  #fieldName(): string {
    const { kind, text, pos } = this.#next;
    if (kind !== 'identifier')
      throw new CelSyntaxError(pos, `mismatched input ${this.#found} expecting IDENTIFIER`);
    this.#at++;
    return text;
  }

  #map(pos: number): ASTNode {
    const { entries, optional } = this.#entries('}', () => {
      const key = this.#expression();
      this.#expect(':');
      return [key, this.#expression()] as const;
    });
    return { op: 'map', args: entries, pos, optional };
  }

  /** Comma-separated entries, with an optional trailing comma. */
  #entries<T>(end: string, entry: () => T): { readonly entries: T[]; readonly optional: Set<number> } {
    const entries: T[] = [];
    const optional = new Set<number>();
    while (!this.#is(end)) {
      if (this.#take('?') !== undefined) optional.add(entries.length);
      entries.push(entry());
      if (this.#take(',') === undefined) break;
    }
    this.#expect(end);
    return { entries, optional };
  }
}
