/**
 * The expression of a policy group: calls of its members by their names, joined by `&&`, `||`, `!` and parentheses. That is
 * what both Kubewarden's controller (with CEL) and its server (with Rhai) accept.
 */

export type GroupNode =
  | { readonly op: 'member'; readonly name: string; readonly column: number }
  | { readonly op: 'literal'; readonly value: boolean }
  | { readonly op: 'not'; readonly operand: GroupNode }
  | { readonly op: 'and' | 'or'; readonly left: GroupNode; readonly right: GroupNode };

/** A problem of an expression, with its position: columns count from 1. */
export class GroupExpressionError extends Error {
  readonly column: number;

  constructor(column: number, why: string) {
    super(`column ${column}: ${why}`);
    this.name = 'GroupExpressionError';
    this.column = column;
  }
}

const maxLength = 8 * 1024;
const maxDepth = 100;
const tokens = /\s*(?:(&&|\|\||[!()])|([A-Za-z_][A-Za-z0-9_]*)|$)/y;

interface Token {
  readonly text: string;
  readonly column: number;
}

/** @throws {GroupExpressionError} */
export function parseGroupExpression(source: string): GroupNode {
  if (source.length > maxLength)
    throw new GroupExpressionError(1, `the expression is longer than ${maxLength} characters`);
  return new GroupParser(tokensOf(source)).whole();
}

function tokensOf(source: string): Token[] {
  const found: Token[] = [];
  tokens.lastIndex = 0;
  for (;;) {
    const from = tokens.lastIndex;
    const match = tokens.exec(source);
    if (match === null) {
      const rest = source.slice(from).trimStart();
      const column = source.length - rest.length + 1;
      throw new GroupExpressionError(
        column,
        `unexpected ${JSON.stringify(String.fromCodePoint(rest.codePointAt(0) ?? 0))}; an expression consists of member calls, &&, ||, ! and parentheses`,
      );
    }
    const text = match[1] ?? match[2] ?? '';
    found.push({ text, column: tokens.lastIndex - text.length + 1 });
    if (text === '') return found;
  }
}

class GroupParser {
  readonly #tokens: readonly Token[];
  #at = 0;
  #depth = 0;

  constructor(all: readonly Token[]) {
    this.#tokens = all;
  }

  get #next(): Token {
    return this.#tokens[this.#at] ?? { text: '', column: 1 };
  }

  #take(text: string): boolean {
    if (this.#next.text !== text) return false;
    this.#at++;
    return true;
  }

  #expectEnd(): void {
    if (!this.#take(')')) throw this.#unexpected('")"');
  }

  #unexpected(wanted: string): GroupExpressionError {
    const { text, column } = this.#next;
    const found = text === '' ? 'the end' : JSON.stringify(text);
    return new GroupExpressionError(column, `expected ${wanted}, found ${found}`);
  }

  whole(): GroupNode {
    const node = this.#or();
    if (this.#next.text !== '') throw this.#unexpected('&& or ||');
    return node;
  }

  #or(): GroupNode {
    let left = this.#and();
    while (this.#take('||')) left = { op: 'or', left, right: this.#and() };
    return left;
  }

  #and(): GroupNode {
    let left = this.#unary();
    while (this.#take('&&')) left = { op: 'and', left, right: this.#unary() };
    return left;
  }

  #unary(): GroupNode {
    const { text, column } = this.#next;
    if (++this.#depth > maxDepth)
      throw new GroupExpressionError(column, 'the expression is nested too deeply');
    try {
      if (this.#take('!')) return { op: 'not', operand: this.#unary() };
      if (this.#take('(')) {
        const inner = this.#or();
        this.#expectEnd();
        return inner;
      }
      if (!/^[A-Za-z_]/.test(text)) throw this.#unexpected('a member call');
      this.#at++;
      if (text === 'true' || text === 'false') return { op: 'literal', value: text === 'true' };
      if (!this.#take('(')) throw this.#unexpected(`"()" after ${text}`);
      this.#expectEnd();
      return { op: 'member', name: text, column };
    } finally {
      this.#depth--;
    }
  }
}

/** The calls of members, in their order. */
export function membersOf(node: GroupNode): { readonly name: string; readonly column: number }[] {
  switch (node.op) {
    case 'member':
      return [node];
    case 'literal':
      return [];
    case 'not':
      return membersOf(node.operand);
    case 'and':
    case 'or':
      return [...membersOf(node.left), ...membersOf(node.right)];
  }
}

/**
 * Decides, evaluating members only as needed. The result of a member that cannot be evaluated is unknown: the answer is
 * `undefined` unless the others decide. So `!broken()` allows nothing.
 */
export async function decideGroup(
  node: GroupNode,
  ask: (name: string) => Promise<boolean | undefined>,
): Promise<boolean | undefined> {
  switch (node.op) {
    case 'member':
      return await ask(node.name);
    case 'literal':
      return node.value;
    case 'not': {
      const value = await decideGroup(node.operand, ask);
      return value === undefined ? undefined : !value;
    }
    case 'and':
    case 'or': {
      const decisive = node.op === 'or';
      const left = await decideGroup(node.left, ask);
      if (left === decisive) return decisive;
      const right = await decideGroup(node.right, ask);
      if (right === decisive) return decisive;
      return left === undefined || right === undefined ? undefined : !decisive;
    }
  }
}
