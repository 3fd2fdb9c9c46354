/** CEL expressions: compiled once against the types of their variables, then run. */
import type { Frame } from './code.ts';
import { Compiler } from './compiler.ts';
import type { Definition, Scope } from './environment.ts';
import { compileMessage } from './messages.ts';
import { measured, type Outcome } from './meter.ts';
import { parse } from './parser.ts';
import { CelSyntaxError } from './syntax.ts';

/** An expression ready to run. */
export interface Program {
  /** The variables of its scope that it uses. */
  readonly variables: ReadonlySet<string>;
  /** Runs the expression; never throws. @param variables - Values as made by `toCel`. */
  run(variables: Readonly<Record<string, unknown>>, costLimit?: number): Outcome;
}

/** An expression that compiles, but to the wrong type. */
export const wrongType = 'wrong type';

/** An expression of a {@link Scope}. It runs on the frames of the scope, within `measured`. */
export type Expression = Definition;

/** @returns the expression, or its problem. */
export function compileExpression(source: string, scope: Scope): Expression | string {
  try {
    const compiler = new Compiler(scope.library, scope);
    const { type, run } = compiler.compile(parse(source));
    return { type, run, variables: compiler.used };
  } catch (error) {
    // A RangeError means that the expression is nested too deeply for the recursion of parser or compiler.
    const shown =
      error instanceof RangeError ? new CelSyntaxError(0, 'expression recursion limit exceeded') : error;
    return compileMessage(shown, source);
  }
}

/** @returns the program, the problem of the expression, or {@link wrongType}. */
export function compile(source: string, result: 'bool' | 'string', scope: Scope): Program | string {
  const expression = compileExpression(source, scope);
  if (typeof expression === 'string') return expression;
  const { type, run, variables } = expression;
  if (type.kind !== result && type.kind !== 'dyn') return wrongType;
  const places = [...scope.variables].map(([name, { place }]) => [name, place] as const);
  return {
    variables,
    run: (values, costLimit) =>
      measured(() => {
        const frame: Frame = [];
        for (const [name, place] of places) frame[place] = values[name];
        return run(frame);
      }, costLimit),
  };
}
