/**
 * The estimated cost of rules, with the figures of Kubernetes: apiextensions-apiserver
 * `pkg/apiserver/schema/cel/compilation_test.go` (`TestCostEstimation`) and
 * `pkg/apis/apiextensions/validation/validation_test.go`.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { SchemaNode } from '../node.ts';
import { refusals } from '../schema.fixture.ts';
import { object, rule } from './rules.fixture.ts';
import { RuleCosts } from './rule-costs.ts';
import { compileRuleTree } from './rule-tree.ts';

function costOf(schema: object, source: string): number {
  const costs = new RuleCosts(false);
  const node = new SchemaNode({ ...schema, ...rule(source) });
  const { root } = compileRuleTree(node, false, '', costs);
  const [compiled] = root?.rules ?? [];
  assert.notEqual(typeof compiled?.program, 'string', String(compiled?.program));
  return costs.total;
}

type Shape = (limit?: number) => object;

/** A type, a format of strings, or int-or-string. */
function item(kind: string): object {
  if (kind === 'int-or-string') return { 'x-kubernetes-int-or-string': true };
  return kind.startsWith('da') || kind === 'duration' ? { type: 'string', format: kind } : { type: kind };
}
const arrayOf =
  (items: object): Shape =>
  (maxItems) => ({ type: 'array', items, ...(maxItems !== undefined && { maxItems }) });
const mapOf =
  (additionalProperties: object): Shape =>
  (limit) => ({
    type: 'object',
    additionalProperties,
    ...(limit !== undefined && { maxProperties: limit }),
  });
const string =
  (more: object = {}): Shape =>
  (limit) => ({ type: 'string', ...more, ...(limit !== undefined && { maxLength: limit }) });
const text = { type: 'string' };
const required = object({ required: text, optional: text }, { required: ['required'] });
const lists = (limit?: number): object => arrayOf(string()(limit))(limit);
const nested = (items?: number, entries?: number): object => arrayOf(mapOf(required)(entries))(items);

/** The cost without a limit, and with this one. */
type Case = readonly [shape: Shape, source: string, free: number, limit: number, limited: number];

const all = 'self.all(x, true)';
const cases: readonly Case[] = [
  [arrayOf(item('number')), all, 4_718_591, 10, 32],
  [arrayOf(text), all, 3_145_727, 20, 62],
  [arrayOf(item('boolean')), all, 1_887_437, 5, 17],
  [arrayOf(arrayOf(item('number'))()), all, 3_145_727, 100, 302],
  [arrayOf(required), all, 555_128, 50, 152],
  [arrayOf(item('int-or-string')), all, 4_718_591, 10, 32],
  [arrayOf(item('duration')), all, 2_359_295, 5, 17],
  [arrayOf(item('date')), all, 725_936, 15, 47],
  [arrayOf(item('date-time')), all, 428_963, 25, 77],
  [mapOf(item('number')), all, 1_348_169, 10, 32],
  [mapOf(text), all, 1_179_647, 3, 11],
  [mapOf(item('boolean')), all, 943_718, 100, 302],
  [mapOf(item('int-or-string')), all, 1_348_169, 15, 47],
  [mapOf(required), all, 428_963, 20, 62],
  [mapOf(mapOf(item('number'))()), all, 1_179_647, 10, 32],
  [mapOf(arrayOf(item('number'))()), all, 1_179_647, 25, 77],
  [mapOf(item('duration')), all, 1_048_577, 5, 17],
  [mapOf(item('date')), all, 524_288, 10, 32],
  [mapOf(item('date-time')), all, 349_526, 25, 77],
  [string(), "self.contains('test')", 314_574, 10, 5],
  [string(), "self.startsWith('test')", 2, 15, 2],
  [string(), "self.endsWith('test')", 2, 30, 2],
  [string(), 'size(self + "hello") > size("hello")', 314_578, 4, 7],
  [arrayOf(item('number')), 'self[1] == 0.0', 2, 5000, 2],
  [arrayOf(text), 'self[1] == self[1]', 314_577, 8, 314_577],
  [arrayOf(item('number')), 'self.all(x, self.all(y, true))', 7_421_701_914_624, 10, 352],
  [string(), 'self.matches("x")', 314_574, 50, 22],
  [string(), '"".matches("(((((((((())))))))))[0-9]")', 7, 10, 7],
  [string(), 'self.matches("")', 1, 100, 1],
  [(limit) => mapOf(string()(limit))(limit), 'self.all(x, x.contains(self[x]))', 2_752_507, 10, 72],
  [mapOf(item('number')), 'self["x"] == 0.0', 2, 0, 2],
  [string(), 'self == "x"', 2, 0, 1],
  [string({ format: 'byte' }), 'self == b"x"', 2, 0, 1],
  [arrayOf(item('number')), 'self.all(x, x == 0.0)', 6_291_454, 3 * 1024 * 2048, 25_165_826],
  [(limit) => nested(limit, limit), 'self.all(x, x["y"].required == "z")', 7_340_027, 10, 72],
  [(limit) => nested(undefined, limit), 'self.all(x, x["y"].required == "z")', 7_340_027, 10, 7_340_027],
  [arrayOf(item('int-or-string')), 'self[0] == 5', 3, 10, 3],
  [arrayOf(item('boolean')), 'self[0] == false', 2, 25, 2],
  [arrayOf(required), 'self[0] == null', 2, 422, 2],
  [arrayOf(arrayOf(item('number'))()), 'self[0][0] == -1.0', 3, 51, 3],
  [arrayOf(mapOf(item('number'))()), 'self.all(x, x.y == 25.2)', 6_291_452, 12, 74],
  [arrayOf(mapOf(item('number'))()), 'self[0].x > 2.0', 4, 3000, 4],
  [arrayOf(item('duration')), 'self[0].getHours() == 2', 4, 525, 4],
  [arrayOf(item('date')), 'self[2].getDayOfMonth() == 13', 4, 42, 4],
  [string(), "self.find('[0-9]+') == ''", 629_147, 10, 11],
  [lists, "self.join(' ') == 'aa bb'", 329_853_068_905, 10, 43],
  [lists, 'self.isSorted() == true', 329_854_432_052, 10, 52],
  [
    (limit) => object({ str: string()(limit), before: string()(2), after: string()(4) }),
    "self.str.replace(self.before, self.after) == 'does not matter'",
    629_154,
    4,
    12,
  ],
  [
    (limit) => object({ str: string()(limit), separator: string()(limit) }),
    'self.str.split(self.separator) == []',
    629_160,
    10,
    22,
  ],
  [string(), "self.lowerAscii() == 'lower!'", 314_575, 10, 6],
  [mapOf(item('integer')), 'oldSelf.size() == self.size()', 5, 10, 5],
  [mapOf(item('date-time')), 'self["a"] == self["b"]', 8, 7, 8],
  [mapOf(item('duration')), 'self["c"] == self["d"]', 8, 42, 8],
  [string({ enum: ['A', 'B', 'C', 'LongValue'] }), "self.contains('A')", 2, 1000, 401],
  [
    (limit) => ({ 'x-kubernetes-int-or-string': true, ...(limit !== undefined && { maxLength: limit }) }),
    'isQuantity(self)',
    314_574,
    20,
    9,
  ],
];

test('the figures of Kubernetes', () => {
  for (const [shape, source, free, limit, limited] of cases) {
    const found = [costOf(shape(), source), costOf(shape(limit), source)];
    assert.deepEqual(found, [free, limited], `${source} on ${JSON.stringify(shape(limit))}`);
  }
});

suite('refused', () => {
  const refused = (name: string, factor: string): string =>
    `Forbidden: ${name} exceeds budget by factor of ${factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)`;
  const contributed =
    'Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema';
  const total = 'x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema';
  const keyword = { type: 'string', maxLength: 5000, ...rule("self.contains('keyword')") };
  const costly = {
    list: { type: 'array', maxItems: 100_000, items: keyword },
    map: { type: 'object', maxProperties: 1000, additionalProperties: keyword },
    field: { type: 'integer', ...rule('self > 50 && self < 100') },
  };
  const listRule = '~.properties[list].items.x-kubernetes-validations[0].rule';

  test('a rule, and all together, with those that contribute most', () => {
    assert.deepEqual(refusals(object(costly)), [
      `${listRule}: ${refused('estimated rule cost', '20.0x')}`,
      `${listRule}: ${contributed}`,
      `~.properties[map].additionalProperties.x-kubernetes-validations[0].rule: ${contributed}`,
      `~: ${refused(total, '2.0x')}`,
    ]);
  });
  test('a schema that was accepted before is refused only for the total', () => {
    assert.deepEqual(refusals(object(costly), { known: true }).slice(0, 1), [`${listRule}: ${contributed}`]);
    const { list, field } = costly;
    const once = object({ list: { ...list, maxItems: 30_000 }, field });
    assert.equal(refusals(once).length, 1);
    assert.deepEqual(refusals(once, { known: true }), []);
  });
  test('how far above the limit', () => {
    const shown = (maxItems: number): string | undefined =>
      refusals(object({ list: { ...costly.list, maxItems } }))[0]?.match(/of (.*) \(/)?.[1];
    assert.deepEqual([4992, 5000, 7500, 499_000, 500_000].map(shown), [
      undefined,
      '1.000500x',
      '1.5x',
      '99.8x',
      'more than 100x',
    ]);
  });
  test('a message', () => {
    const sum = [0, 1, 2, 3, 4, 5, 6, 7].map((index) => `self[${index}]`).join(' + ');
    const f = { type: 'array', items: text, ...rule('true', { messageExpression: sum }) };
    const field = '~.properties[f].x-kubernetes-validations[0].messageExpression';
    assert.deepEqual(refusals(object({ f })), [
      `${field}: ${refused('estimated messageExpression cost', '1.101006x')}`,
    ]);
  });
  test('nested lists without a limit: as many as a request can hold', () => {
    const inner = { type: 'array', items: { type: 'integer', ...rule('self > 3') } };
    const cost = (list: object): number => costOf({ type: 'array', items: list }, 'true');
    assert.equal(cost(inner), 1_572_864 * 2);
    assert.equal(costOf({ type: 'array', maxItems: 10, items: { ...inner, maxItems: 5 } }, 'true'), 100);
  });
});
