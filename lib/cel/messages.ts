/** Errors of expressions, in the format of the API server's messages. */
import { CompileError } from './code.ts';
import { CelSyntaxError } from './syntax.ts';
import { messageOf } from '../errors/errors.ts';

/** `ERROR: <input>:1:5: undefined field 'foo'`, followed by the source line and a mark below the error. */
export function compileMessage(error: unknown, source: string): string {
  const words = messageOf(error);
  const start =
    error instanceof CompileError ? error.node.pos : error instanceof CelSyntaxError ? error.pos : 0;
  const before = source.slice(0, start).split('\n');
  const column = Array.from(before.at(-1) ?? '').length;
  const line = source.split('\n')[before.length - 1] ?? '';
  const text = error instanceof CompileError ? words : `Syntax error: ${words}`;
  return `ERROR: <input>:${before.length}:${column + 1}: ${text}\n | ${line}\n | ${'.'.repeat(column)}^`;
}

/** `no such key: foo`, `index out of bounds: 3`, `division by zero`, ... */
export function evaluationMessage(error: unknown): string {
  if (error instanceof RangeError) return 'the value is nested too deeply';
  return error instanceof Error ? error.message : 'internal error';
}
