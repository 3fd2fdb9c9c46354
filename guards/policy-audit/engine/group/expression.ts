/**
 * The expression of a policy group: calls of its members by their names, joined by `&&`, `||`, `!` and
 * parentheses. Both Kubewarden's controller (which uses CEL) and its server (which uses Rhai) accept just that.
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
  return parseTokens(tokensOf(source));
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

function parseTokens(all: readonly Token[]): GroupNode {
  let at = 0;
  let depth = 0;

  function next(): Token {
    return all[at] ?? { text: '', column: 1 };
  }

  function take(text: string): boolean {
    if (next().text !== text) return false;
    at++;
    return true;
  }

  function expectEnd(): void {
    if (!take(')')) throw unexpected('")"');
  }

  function unexpected(wanted: string): GroupExpressionError {
    const { text, column } = next();
    const found = text === '' ? 'the end' : JSON.stringify(text);
    return new GroupExpressionError(column, `expected ${wanted}, found ${found}`);
  }

  function or(): GroupNode {
    let left = and();
    while (take('||')) left = { op: 'or', left, right: and() };
    return left;
  }

  function and(): GroupNode {
    let left = unary();
    while (take('&&')) left = { op: 'and', left, right: unary() };
    return left;
  }

  function unary(): GroupNode {
    const { text, column } = next();
    if (++depth > maxDepth) throw new GroupExpressionError(column, 'the expression is nested too deeply');
    try {
      if (take('!')) return { op: 'not', operand: unary() };
      if (take('(')) {
        const inner = or();
        expectEnd();
        return inner;
      }
      if (!/^[A-Za-z_]/.test(text)) throw unexpected('a member call');
      at++;
      if (text === 'true' || text === 'false') return { op: 'literal', value: text === 'true' };
      if (!take('(')) throw unexpected(`"()" after ${text}`);
      expectEnd();
      return { op: 'member', name: text, column };
    } finally {
      depth--;
    }
  }

  const node = or();
  if (next().text !== '') throw unexpected('&& or ||');
  return node;
}

/** The calls of members, in the order of the expression. */
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
 * Decides, evaluating members only as needed. The result of a member that cannot be evaluated is unknown, and so
 * is that of the expression (`undefined`) unless the other members decide. So `!broken()` allows nothing.
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
