/**
 * Errors of cel-js in the words of cel-go, as far as the API server's users know them.
 *
 * @module
 */
import { EvaluationError } from '@marcbachmann/cel-js';
import { renamed, renamedPrefix } from './library-strings.ts';

interface CelErrorShape {
  readonly code?: unknown;
  readonly summary?: unknown;
  readonly range?: { readonly start: number };
  readonly node?: ErrorNode;
}

/** The part of a syntax tree that an error is about. */
interface ErrorNode {
  readonly pos?: number;
  readonly op?: string;
  readonly args?: unknown;
  /** The functions of a call's name. */
  readonly candidates?: { readonly declarations?: readonly unknown[] };
}

/** Where cel-go places an error: at the dot of a selection, the operator, the parenthesis of a call. */
function positionOf(node: ErrorNode, source: string): number {
  const at = node.pos ?? 0;
  const parts = Array.isArray(node.args) ? (node.args as unknown[]) : [];
  const endOf = (part: unknown): number | undefined => (part as { readonly end?: number } | undefined)?.end;
  if (node.op === '.' || node.op === '.?') return Math.max(0, at - 1);
  if (node.op === 'call') return Math.max(at, source.indexOf('(', at));
  if (node.op === 'rcall') return Math.max(at, source.indexOf('(', endOf(parts[1]) ?? at));
  const left = parts.length === 2 ? endOf(parts[0]) : undefined;
  return left === undefined ? at : Math.max(at, source.indexOf(node.op ?? '', left));
}

const plainNames = new RegExp(`${renamedPrefix}(?=${[...renamed].join('|')})`, 'g');

function summaryOf(error: unknown): string {
  const { summary } = error as CelErrorShape;
  const text = typeof summary === 'string' ? summary : error instanceof Error ? error.message : String(error);
  // Only the first line: the rest is cel-js's picture of the source.
  return (text.split('\n', 1)[0] ?? '').replaceAll(plainNames, '').replaceAll(/\bmessage<[^>]*>/g, 'object');
}

const rewordings: Readonly<Record<string, (summary: string) => string>> = {
  unknown_variable: (text) =>
    text.replace(/^Unknown variable: (.*)$/, "undeclared reference to '$1' (in container '')"),
  no_such_key: (text) => text.replace(/^No such key: (.*)$/, "undefined field '$1'"),
  no_such_overload: (text) =>
    text
      .replace(
        /^no such overload: (.+) (\S+) (.+)$/,
        "found no matching overload for '_$2_' applied to '($1, $3)'",
      )
      .replace(/^no such overload: ([!-])(.+)$/, "found no matching overload for '$1_' applied to '($2)'"),
  no_matching_overload: (text) =>
    text
      .replace(/'([^'(]*)\.(\w+)\((.*)\)'$/, (_all, receiver: string, name: string, args: string) => {
        const types = args === '' ? '()' : `(${args})`;
        return `'${name}' applied to '${receiver}.${types}'`;
      })
      .replace(/'(\w+)\((.*)\)'$/, "'$1' applied to '($2)'"),
};

const firstOf = (node: ErrorNode | undefined): unknown =>
  Array.isArray(node?.args) ? (node.args as unknown[])[0] : '';

/** `ERROR: <input>:1:5: undefined field 'foo'`, with the line and a mark below it. */
export function compileMessage(error: unknown, source: string): string {
  const { code, range, node } = error as CelErrorShape;
  const reword = typeof code === 'string' && Object.hasOwn(rewordings, code) ? rewordings[code] : undefined;
  const unknownFunction = code === 'no_matching_overload' && node?.candidates?.declarations?.length === 0;
  const text = unknownFunction
    ? `undeclared reference to '${String(firstOf(node))}' (in container '')`
    : reword === undefined
      ? `Syntax error: ${summaryOf(error)}`
      : reword(summaryOf(error));
  const start = node?.op === undefined ? (range?.start ?? 0) : positionOf(node, source);
  const before = source.slice(0, start).split('\n');
  const column = before.at(-1)?.length ?? 0;
  const line = source.split('\n')[before.length - 1] ?? '';
  const isType = (error as { name?: unknown }).name === 'TypeError';
  const words = reword === undefined && isType ? summaryOf(error) : text;
  return `ERROR: <input>:${before.length}:${column + 1}: ${words}\n | ${line}\n | ${'.'.repeat(column)}^`;
}

/** `no such key: foo`, `index out of bounds: 3`, `division by zero`, ... */
export function evaluationMessage(error: unknown): string {
  if (error instanceof RangeError) return 'the value is nested too deeply';
  if (!(error instanceof EvaluationError))
    return error instanceof Error ? summaryOf(error) : 'internal error';
  const text = summaryOf(error);
  switch (error.code) {
    case 'no_such_key':
      return text.replace(/^No such key/, 'no such key');
    case 'index_out_of_bounds':
      return text.replace(/^.*index (-?\d+).*$/, 'index out of bounds: $1');
    case 'numeric_overflow':
      return 'integer overflow';
    case 'modulo_by_zero':
      return 'modulus by zero';
    case 'optional_value_missing':
      return 'optional.none() dereference';
    case 'no_such_overload':
    case 'no_matching_overload':
    case 'invalid_condition_type':
    case 'invalid_logical_operand':
    case 'list_item_type_mismatch':
    case 'field_type_mismatch':
      return 'no such overload';
    default:
      return text;
  }
}
