/**
 * Literals that are checked while an expression is compiled: regular expressions, times (cel-go `cel/validator.go`).
 */
import { problem } from './code.ts';
import { CelError } from './failure.ts';
import { isDateTime, parseGoDuration } from './formats.ts';
import { expression } from './library-strings.ts';
import type { ASTNode } from './syntax.ts';

/** Functions that take a regular expression after the text. */
const regexFunctions: ReadonlySet<string> = new Set(['matches', 'find', 'findAll']);

/**
 * @param args of the call, without a receiver.
 * @throws {CompileError}
 */
export function checkLiterals(name: string, args: readonly ASTNode[], method: boolean): void {
  const pattern = regexFunctions.has(name) ? args[method ? 0 : 1] : undefined;
  if (pattern?.op === 'value' && typeof pattern.args === 'string') checkPattern(pattern, name, pattern.args);
  const [first] = args;
  if (!method && first?.op === 'value') checkTime(first, name, first.args);
}

function checkPattern(node: ASTNode, name: string, pattern: string): void {
  try {
    // It is cached for the run.
    expression(pattern);
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    problem(node, `invalid ${name} argument: ${error.message}`);
  }
}

function checkTime(node: ASTNode, name: string, value: unknown): void {
  if (typeof value !== 'string' || (name !== 'duration' && name !== 'timestamp')) return;
  const good = name === 'duration' ? parseGoDuration(value) !== undefined : isDateTime(value);
  if (!good) problem(node, `invalid ${name} argument`);
}
