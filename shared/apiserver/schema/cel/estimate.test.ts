/** Expected costs: apiextensions-apiserver `pkg/apiserver/schema/cel/compilation_test.go`, `TestCostEstimation`. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { SchemaNode } from '../node.ts';
import type { JsonSchema } from '../json-schema.ts';
import { compileRules } from './rule.ts';
import { celTypeOf } from './types.ts';

function cost(schema: JsonSchema, rule: string): number {
  const type = celTypeOf(new SchemaNode(schema));
  assert.ok(type);
  const [compiled] = compileRules([{ rule }], type);
  assert.ok(compiled !== undefined && typeof compiled.program !== 'string', String(compiled?.program));
  return compiled.program.maxCost;
}

type Limit = number | undefined;
type Maker = (limit: Limit) => JsonSchema;

const limited = (keyword: 'maxItems' | 'maxLength' | 'maxProperties', limit: Limit): JsonSchema =>
  limit === undefined ? {} : { [keyword]: limit };

const scalar = (kind: string): JsonSchema => {
  if (kind === 'int-or-string') return { 'x-kubernetes-int-or-string': true };
  return ['duration', 'date', 'date-time', 'byte'].includes(kind)
    ? { type: 'string', format: kind }
    : { type: kind };
};
const text: Maker = (limit) => ({ type: 'string', ...limited('maxLength', limit) });
const array =
  (items: JsonSchema | string): Maker =>
  (limit) => ({
    type: 'array',
    items: typeof items === 'string' ? scalar(items) : items,
    ...limited('maxItems', limit),
  });
const map =
  (values: JsonSchema | string): Maker =>
  (limit) => ({
    type: 'object',
    additionalProperties: typeof values === 'string' ? scalar(values) : values,
    ...limited('maxProperties', limit),
  });
const object: JsonSchema = {
  type: 'object',
  required: ['required'],
  properties: { required: { type: 'string' }, optional: { type: 'string' } },
};
const numbers: JsonSchema = { type: 'array', items: { type: 'number' } };
const numberMap: JsonSchema = { type: 'object', additionalProperties: { type: 'number' } };

/** Rule, its cost without a limit (`Infinity`: over the limit), a limit and the cost under it. */
const cases: readonly (readonly [
  make: Maker,
  rule: string,
  unlimited: number,
  limit: number,
  withLimit: number,
])[] = [
  [array('number'), 'self.all(x, true)', 4_718_591, 10, 32],
  [array('string'), 'self.all(x, true)', 3_145_727, 20, 62],
  [array('boolean'), 'self.all(x, true)', 1_887_437, 5, 17],
  [array(numbers), 'self.all(x, true)', 3_145_727, 100, 302],
  [array(object), 'self.all(x, true)', 555_128, 50, 152],
  [map('number'), 'self.all(x, true)', 1_348_169, 10, 32],
  [map('string'), 'self.all(x, true)', 1_179_647, 3, 11],
  [map('boolean'), 'self.all(x, true)', 943_718, 100, 302],
  [text, "self.contains('test')", 314_574, 10, 5],
  [text, "self.startsWith('test')", 2, 15, 2],
  [text, "self.endsWith('test')", 2, 30, 2],
  [text, 'size(self + "hello") > size("hello")', 314_578, 4, 7],
  [array('number'), 'self[1] == 0.0', 2, 5_000, 2],
  [array('string'), 'self[1] == self[1]', 314_577, 8, 314_577],
  [array('number'), 'self.all(x, self.all(y, true))', Infinity, 10, 352],
  [array('number'), 'self.all(x, self.all(y, self.all(z, true)))', Infinity, 10, 3_552],
  [text, 'self.matches("x")', 314_574, 50, 22],
  [text, '"".matches("(((((((((())))))))))[0-9]")', 7, 10, 7],
  [text, 'self.matches("")', 1, 100, 1],
  [map('string'), 'self.all(x, x.contains(self[x]))', 2_752_507, 10, 72],
  [array('number'), 'self[3] == 0.0', 2, 0, 2],
  [map('number'), 'self["x"] == 0.0', 2, 0, 2],
  [text, 'self == "x"', 2, 0, 1],
  [array('number'), 'self.all(x, x == 0.0)', 6_291_454, 3 * 1024 * 2048, 25_165_826],
  [array(map(object)(undefined)), 'self.all(x, x["y"].required == "z")', 7_340_027, 10, 72],
  [array('int-or-string'), 'self.all(x, true)', 4_718_591, 10, 32],
  [array('int-or-string'), 'self[0] == 5', 3, 10, 3],
  [array('boolean'), 'self[0] == false', 2, 25, 2],
  [array(object), 'self[0] == null', 2, 422, 2],
  [array(numbers), 'self[0][0] == -1.0', 3, 51, 3],
  [array(numberMap), 'self.all(x, x.y == 25.2)', 6_291_452, 12, 74],
  [array(numberMap), 'self[0].x > 2.0', 4, 3_000, 4],
  [array('duration'), 'self.all(x, true)', 2_359_295, 5, 17],
  [array('duration'), 'self[0].getHours() == 2', 4, 525, 4],
  [array('date'), 'self.all(x, true)', 725_936, 15, 47],
  [array('date'), 'self[2].getDayOfMonth() == 13', 4, 42, 4],
  [array('date-time'), 'self.all(x, true)', 428_963, 25, 77],
  [array('date-time'), 'self[2].getMinutes() == 45', 4, 99, 4],
  [map('int-or-string'), 'self.all(x, true)', 1_348_169, 15, 47],
  [map(object), 'self.all(x, true)', 428_963, 20, 62],
  [map(numberMap), 'self.all(x, true)', 1_179_647, 10, 32],
  [map(numbers), 'self.all(x, true)', 1_179_647, 25, 77],
  [map('duration'), 'self.all(x, true)', 1_048_577, 5, 17],
  [map('date'), 'self.all(x, true)', 524_288, 10, 32],
  [map('date-time'), 'self.all(x, true)', 349_526, 25, 77],
  [text, "self.find('[0-9]+') == ''", 629_147, 10, 11],
  [(limit) => array(text(limit))(limit), "self.join(' ') == 'aa bb'", 329_853_068_905, 10, 43],
  [(limit) => array(text(limit))(limit), 'self.isSorted() == true', 329_854_432_052, 10, 52],
  [
    (limit) => ({ type: 'object', properties: { str: text(limit), before: text(2), after: text(4) } }),
    "self.str.replace(self.before, self.after) == 'does not matter'",
    629_154,
    4,
    12,
  ],
  [
    (limit) => ({ type: 'object', properties: { str: text(limit), separator: text(limit) } }),
    'self.str.split(self.separator) == []',
    629_160,
    10,
    22,
  ],
  [text, "self.lowerAscii() == 'lower!'", 314_575, 10, 6],
  [map('integer'), 'oldSelf.size() == self.size()', 5, 10, 5],
  [map('date-time'), 'self["a"] == self["b"]', 8, 7, 8],
  [map('duration'), 'self["c"] == self["d"]', 8, 42, 8],
  [(limit) => ({ ...text(limit), enum: ['A', 'B', 'C', 'LongValue'] }), "self.contains('A')", 2, 1_000, 401],
];

suite('estimated costs are those of Kubernetes', () => {
  for (const [make, rule, unlimited, limit, withLimit] of cases) {
    test(`${rule} on ${JSON.stringify(make(undefined))}`, () => {
      const without = cost(make(undefined), rule);
      if (unlimited === Infinity) assert.ok(without > 100_000_000, String(without));
      else assert.equal(without, unlimited);
      assert.equal(cost(make(limit), rule), withLimit);
    });
  }
});
