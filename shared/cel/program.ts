/**
 * Expressions, compiled.
 *
 * @module
 */
import { ParseError } from '@marcbachmann/cel-js';
import { baseEnvironment, mentionedNames, type Scope } from './environment.ts';
import { calledName, renameCall, walk, type CelNode } from './internals.ts';
import { expression, renamed, renamedPrefix } from './library-strings.ts';
import { repairHas } from './macros.ts';
import { compileMessage } from './messages.ts';
import { instrument, measured, type Outcome } from './meter.ts';

/** An expression ready to run. */
export interface Program {
  /** Those of its scope that it names. */
  readonly variables: ReadonlySet<string>;
  /** Never throws. Values are those of the {@link Scope}. */
  run(variables: Readonly<Record<string, unknown>>, costLimit?: number): Outcome;
}

/** An expression that compiles, but not to what is wanted. */
export const wrongType = 'wrong type';

/** Longer expressions are refused before they are parsed. */
const maxExpressionLength = 64 * 1024;

/** The names that expressions select, and the strings in them: fields that they may look at. */
export function namesIn(sources: readonly string[]): Set<string> {
  const names = new Set<string>();
  for (const source of sources) {
    const tree = parse(source);
    if (tree !== undefined) mentionedNames(tree, names);
  }
  return names;
}

function parse(source: string): CelNode | undefined {
  if (source.length > maxExpressionLength) return undefined;
  try {
    return baseEnvironment().parse(source).ast as unknown as CelNode;
  } catch {
    // The compilation proper reports it.
    return undefined;
  }
}

/** @returns the program; what is wrong with the expression; or {@link wrongType}. */
export function compile(source: string, result: 'bool' | 'string', scope: Scope): Program | string {
  if (source.length > maxExpressionLength)
    return `ERROR: <input>:1:1: expression is longer than ${maxExpressionLength}`;
  try {
    const parsed = scope.environment.parse(source);
    const tree = parsed.ast as unknown as CelNode;
    prepare(tree);
    const checked = parsed.check();
    if (!checked.valid) return compileMessage(checked.error, source);
    if (checked.type !== result && checked.type !== 'dyn') return wrongType;
    checkLiterals(tree);
    const variables = new Set<string>();
    walk(tree, (node) => {
      if (node.op === 'id') variables.add(node.args as string);
    });
    instrument(tree, source.length);
    return {
      variables,
      run: (values, costLimit) => measured((): unknown => parsed(values), costLimit),
    };
  } catch (error) {
    // A tree too high for the recursion of parser and checker ends here as well.
    return compileMessage(
      error instanceof RangeError ? new ParseError('expression recursion limit exceeded') : error,
      source,
    );
  }
}

function prepare(tree: CelNode): void {
  walk(tree, (node) => {
    const name = calledName(node);
    if (name !== undefined && renamed.has(name)) renameCall(node, renamedPrefix + name);
    if (node.op === 'call' && name === 'has') repairHas(node);
  });
}

const expressionFunctions: ReadonlySet<string> = new Set([`${renamedPrefix}matches`, 'find', 'findAll']);

/** Regular expressions that stand in the rule are compiled with it. */
function checkLiterals(tree: CelNode): void {
  walk(tree, (node) => {
    const name = calledName(node);
    if (name === undefined || !expressionFunctions.has(name)) return;
    const args =
      (node.op === 'call'
        ? (node.args as [string, CelNode[]])[1]
        : (node.args as [string, CelNode, CelNode[]])[2]) ?? [];
    const pattern = node.op === 'call' ? args[1] : args[0];
    if (pattern?.op === 'value' && typeof pattern.args === 'string') expression(pattern.args);
  });
}
