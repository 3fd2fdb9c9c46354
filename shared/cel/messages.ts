/**
 * Errors of expressions as the API server's users know them.
 *
 * @module
 */
import { ParseError, type ASTNode } from '@marcbachmann/cel-js';
import { CompileError } from './code.ts';

/** Where cel-go places an error: at the dot of a selection, the operator, the parenthesis of a call. */
function positionOf(node: ASTNode, source: string): number {
  const { pos, op, args } = node;
  if (op === '.' || op === '.?') return Math.max(0, pos - 1);
  if (op === 'call') return Math.max(pos, source.indexOf('(', pos));
  if (op === 'rcall') return Math.max(pos, source.indexOf('(', args[1].end));
  const infix = !['id', 'value', 'list', 'map', '!_', '-_'].includes(op);
  // `[` of an index, `?` of a condition.
  const sign = op === '?:' || op === '[]' || op === '[?]' ? op.slice(0, 1) : op;
  return infix ? Math.max(pos, source.indexOf(sign, (args as [ASTNode])[0].end)) : pos;
}

/** `ERROR: <input>:1:5: undefined field 'foo'`, with the line and a mark below it. */
export function compileMessage(error: unknown, source: string): string {
  const words =
    error instanceof ParseError ? error.summary : error instanceof Error ? error.message : String(error);
  const start =
    error instanceof CompileError
      ? positionOf(error.node, source)
      : error instanceof ParseError
        ? (error.range?.start ?? 0)
        : 0;
  const before = source.slice(0, start).split('\n');
  const column = before.at(-1)?.length ?? 0;
  const line = source.split('\n')[before.length - 1] ?? '';
  const text = error instanceof CompileError ? words : `Syntax error: ${words}`;
  return `ERROR: <input>:${before.length}:${column + 1}: ${text}\n | ${line}\n | ${'.'.repeat(column)}^`;
}

/** `no such key: foo`, `index out of bounds: 3`, `division by zero`, ... */
export function evaluationMessage(error: unknown): string {
  if (error instanceof RangeError) return 'the value is nested too deeply';
  return error instanceof Error ? error.message : 'internal error';
}
