/**
 * Against the evaluator of cel-js, which is another one of the same language. Only what it is known to do right is asked for:
 * no literals of empty lists, no mixed numbers.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { evaluate } from '@marcbachmann/cel-js';
import * as fc from '../testing/fast-check.fixture.ts';

import { Scope } from './environment.ts';
import { compile } from './program.ts';

const { constantFrom: one, oneof, tuple } = fc;

/** Expressions of a type; `int` and `list` need not have a value. */
const expressions = fc.letrec<Record<'int' | 'text' | 'list' | 'bool', string>>((of) => {
  const both = (left: 'int' | 'text' | 'list' | 'bool', operators: readonly string[], right = left) =>
    tuple(of(left), one(...operators), of(right)).map((parts) => `(${parts.join(' ')})`);
  const choice = (type: 'int' | 'text' | 'list') =>
    tuple(of('bool'), of(type), of(type)).map(([condition, yes, no]) => `(${condition} ? ${yes} : ${no})`);
  return {
    int: oneof(
      { maxDepth: 4 },
      one('0', '1', '2', '-3', '9223372036854775807'),
      both('int', ['+', '-', '*', '/', '%']),
      choice('int'),
      of('list').map((list) => `size(${list})`),
      of('text').map((text) => `${text}.size()`),
      tuple(of('list'), of('int')).map(([list, index]) => `${list}[${index}]`),
    ),
    text: oneof(
      { maxDepth: 4 },
      one("'a'", "'bc'", "''", "'zzz'"),
      both('text', ['+']),
      choice('text'),
      of('int').map((int) => `string(${int})`),
    ),
    list: oneof(
      { maxDepth: 3 },
      one('[1, 2, 3]', '[0]', '[2, 2]'),
      both('list', ['+']),
      choice('list'),
      tuple(of('list'), one('v + 1', '1 / v', 'v * v')).map(([list, body]) => `${list}.map(v, ${body})`),
      tuple(of('list'), one('v > 1', '1 / v > 0')).map(([list, body]) => `${list}.filter(v, ${body})`),
    ),
    bool: oneof(
      { maxDepth: 5 },
      one('true', 'false'),
      both('bool', ['&&', '||', '==', '!=']),
      both('int', ['==', '!=', '<', '<=', '>', '>=']),
      both('text', ['==', '!=', '<', '<=', '>', '>=']),
      both('list', ['==', '!=']),
      both('int', ['in'], 'list'),
      of('bool').map((bool) => `!${bool}`),
      tuple(of('text'), one('contains', 'startsWith', 'endsWith'), of('text')).map(
        ([text, method, part]) => `${text}.${method}(${part})`,
      ),
      tuple(of('list'), one('all', 'exists', 'exists_one'), one('v > 1', '1 / v > 0', 'v in [1, 2]')).map(
        ([list, macro, body]) => `${list}.${macro}(v, ${body})`,
      ),
    ),
  };
});

/** The value, or a marker for an error. */
function theirs(source: string): unknown {
  try {
    return evaluate(source) as unknown;
  } catch {
    return 'failed';
  }
}

const scope = new Scope({});

function ours(source: string): unknown {
  const program = compile(source, 'bool', scope);
  assert.ok(typeof program !== 'string', String(program));
  const { value, error } = program.run({});
  return error === undefined ? value : 'failed';
}

test('two evaluators agree', () => {
  fc.assert(
    fc.property(expressions.bool, (source) => {
      assert.equal(ours(source), theirs(source));
    }),
    { numRuns: 1_000 },
  );
});
