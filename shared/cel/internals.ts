/**
 * The parts of @marcbachmann/cel-js 8 that it does not document and this room needs: its syntax tree before and
 * after the type check. They are named in this file only; `meter.test.ts` fails when a release changes them.
 *
 * Why they are needed: the package has no limit on what an evaluation costs, `has()` takes fewer forms than
 * Kubernetes allows, and built-in functions cannot be registered anew (`matches` runs JavaScript's backtracking
 * expressions).
 *
 * @module
 */

/** A type as the checker knows it. */
export interface CheckedType {
  /** `primitive`, `list`, `map`, `message`, `optional`, `dyn`, ... */
  readonly kind: string;
  /** `string`, `list<int>`, ... */
  readonly name: string;
  readonly keyType?: CheckedType;
  readonly valueType?: CheckedType;
}

/** Variables in scope, while checking and while evaluating. */
export interface Scope {
  forkWithVariable(name: string, type: CheckedType): Scope;
  reuse(parent: Scope): Scope;
  setIterValue(value: unknown, evaluator: Evaluator): Scope;
}

export interface Checker {
  readonly registry: {
    getListType(type: CheckedType): CheckedType;
    getMapType(key: CheckedType, value: CheckedType): CheckedType;
    getOptionalType(type: CheckedType): CheckedType;
  };
  check(node: CelNode, scope: Scope): CheckedType;
  getType(name: string): CheckedType;
  createError(code: string, message: string, node?: CelNode): Error;
}

export interface Evaluator {
  run(node: CelNode, scope: Scope): unknown;
  debugType(value: unknown): {
    fieldLazy(value: unknown, name: string, node: CelNode, ev: Evaluator): unknown;
  };
}

/** What a macro call was turned into. */
export interface Macro {
  typeCheck: (checker: Checker, macro: Macro, scope: Scope) => CheckedType;
  evaluate: (evaluator: Evaluator, macro: Macro, scope: Scope) => unknown;
}

type Evaluate = (evaluator: Evaluator, node: CelNode, scope: Scope) => unknown;

/** A node of the syntax tree. `args` depends on `op`; {@link children} knows how. */
export interface CelNode {
  readonly op: string;
  readonly args: unknown;
  readonly pos: number;
  readonly meta: { readonly macro?: Macro };
  evaluate: Evaluate;
  /** Set by the type check on operators and calls: works on the values of the operands. */
  handle?: (...operands: unknown[]) => unknown;
}

/** The nodes directly below one, without those that a macro made up. */
export function children(node: CelNode): readonly CelNode[] {
  const args = node.args;
  switch (node.op) {
    case 'value':
    case 'id':
      return [];
    case '.':
    case '.?':
      return [(args as [CelNode, string])[0]];
    case '!_':
    case '-_':
      return [args as CelNode];
    case 'call':
      return (args as [string, CelNode[]])[1];
    case 'rcall': {
      const [, receiver, rest] = args as [string, CelNode, CelNode[]];
      return [receiver, ...rest];
    }
    case 'map':
      return (args as [CelNode, CelNode][]).flat();
    default:
      return args as CelNode[];
  }
}

/** Calls a function for a node and all below it, parents first. */
export function walk(node: CelNode, visit: (node: CelNode) => void): void {
  visit(node);
  for (const child of children(node)) walk(child, visit);
}

/** The function a call names. */
export function calledName(node: CelNode): string | undefined {
  return node.op === 'call' || node.op === 'rcall' ? (node.args as [string])[0] : undefined;
}

/** Makes a call name another function; only before the type check. */
export function renameCall(node: CelNode, name: string): void {
  (node.args as [string])[0] = name;
}
