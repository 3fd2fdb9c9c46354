/** Limits: apiserver `pkg/apis/cel/config.go`, apiextensions `pkg/apis/apiextensions/validation/validation.go`. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { compileSchema } from '../compiled-schema.ts';
import { lines, refusals, resource } from '../schema.fixture.ts';
import { measured, perCallLimit } from './meter.ts';
import { compileRules } from './rule.ts';
import type { CelType } from './types.ts';

const list: CelType = {
  kind: 'list',
  nullable: false,
  maxElements: 100_000,
  minSizeBytes: 2,
  element: { kind: 'string', nullable: false, maxElements: 100, minSizeBytes: 2 },
};

function run(source: string, self: unknown): { cost: number; exceeded: boolean; value?: unknown } {
  const [compiled] = compileRules([{ rule: source }], list);
  assert.ok(compiled !== undefined && typeof compiled.program !== 'string', String(compiled?.program));
  return compiled.program.run({ self });
}

suite('cost is counted while a rule runs', () => {
  const items = (count: number): string[] => Array.from({ length: count }, (_, index) => `item-${index}`);

  test('it grows with the work', () => {
    const cost = (source: string, count: number): number => run(source, items(count)).cost;
    for (const source of [
      "self.all(x, x != '')",
      "self.exists(x, x == 'nothing')",
      'self.map(x, x + x).size() > 0',
      "self.filter(x, x.startsWith('item')).size() > 0",
      'self.all(i, x, i >= 0)',
      'self.transformList(i, x, x).size() > 0',
      "self.join('').matches('^(i|t)*$') || true",
      "self.join(',').split(',').size() > 0",
      "!('nothing' in self)",
      'self == self.map(x, x)',
    ]) {
      const [few, many] = [cost(source, 10), cost(source, 1_000)];
      assert.ok(many > 20 * few, `${source}: ${few} for 10 items, ${many} for 1000`);
    }
  });

  test('nested loops are broken off', () => {
    for (const source of [
      'self.all(x, self.all(y, self.all(z, x + y + z != "")))',
      'self.exists(x, self.exists(y, self.exists(z, x + y == z)))',
      'self.map(x, self.map(y, self.map(z, x + y + z))).size() > 0',
      'self.all(x, self.exists_one(y, self.filter(z, z == y).size() == 1))',
      'self.all(i, x, self.all(j, y, self.all(k, z, i + j + k >= 0)))',
    ]) {
      const outcome = run(source, items(1_000));
      assert.ok(outcome.exceeded, source);
      assert.ok(outcome.cost < perCallLimit * 1.2, `${source}: ${outcome.cost}`);
    }
  });

  test('so are functions that make much of little', () => {
    const long = ['x'.repeat(100_000)];
    for (const source of [
      "self.map(a, a.replace('', a).size()).sum() > 0",
      "self.map(a, a.split('').map(c, a).size()).sum() > 0 && self[0].split('').all(c, self[0].contains(c + c + c))",
      "self[0].split('').all(c, self[0] + c != '')",
      "self[0].split('').all(c, self[0].matches('(x+x+)+y') == false)",
      "sets.equivalent(self[0].split(''), self[0].split(''))",
    ]) {
      assert.ok(run(source, long).exceeded, source);
    }
  });

  test('errors that an expression swallows cost as well', () => {
    const outcome = run("self.exists(x, {'a': 1}[x] == 2)", items(100_000));
    assert.ok(outcome.exceeded);
  });

  test('swallowing the end of the budget does not help', () => {
    const outcome = run('self.exists(x, self.all(y, self.all(z, y != z + x))) || true', items(1_000));
    assert.ok(outcome.exceeded);
    assert.equal(outcome.value, undefined);
  });

  test('an evaluation that was broken off does not spoil the next one', () => {
    assert.ok(run('self.all(x, self.all(y, self.all(z, x + y + z != "")))', items(1_000)).exceeded);
    const outcome = run("self.all(x, x != '')", items(10));
    assert.deepEqual([outcome.value, outcome.exceeded], [true, false]);
  });

  test('recursion without end is an outcome', () => {
    const endless = (): unknown => endless();
    assert.ok(measured(endless).error instanceof RangeError);
  });
});

suite('what Kubernetes says about it', () => {
  const names = { type: 'array', maxItems: 200, items: { type: 'string', maxLength: 9 } };
  const source = "self.all(x, self.all(y, self.all(z, x + y + z != '')))";
  const schema = compileSchema(
    resource({ ...names, 'x-kubernetes-validations': [{ rule: source }, { rule: 'false' }] }),
    {
      strict: false,
    },
  );
  const limit = `'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: ${source}`;

  test('a rule over its limit ends the validation', () => {
    const spec = Array.from({ length: 200 }, (_, index) => `${index}.`);
    assert.deepEqual(lines(schema.validate({ spec })), [`spec: Invalid value: "array": ${limit}`]);
  });

  test('all rules of an object have one budget', () => {
    const each = 'self.split("").all(x, self.split("").all(y, x + y != ""))';
    const many = compileSchema(
      resource({ type: 'array', items: { type: 'string', 'x-kubernetes-validations': [{ rule: each }] } }),
      { strict: false },
    );
    const spec = Array.from({ length: 100 }, () => 'x'.repeat(200));
    const problems = lines(many.validate({ spec }));
    assert.equal(problems.length, 1);
    assert.match(
      problems[0] ?? '',
      /^spec\[\d+\]: Invalid value: "string": validation failed due to running out of cost budget, no further validation rules will be run$/,
    );
  });
});

suite('rules that could get too expensive are refused', () => {
  const at = '~.properties[spec].x-kubernetes-validations[0].rule';
  const advice =
    '(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)';
  const withRule = (schema: object, source: string): string[] =>
    refusals(resource({ ...schema, 'x-kubernetes-validations': [{ rule: source }] }));

  test('lists and strings without limits, as in the documentation', () => {
    const problems = withRule(
      { type: 'array', items: { type: 'string' } },
      "self.all(x, x.contains('a string'))",
    );
    assert.equal(
      problems[0],
      `${at}: Forbidden: estimated rule cost exceeds budget by factor of more than 100x ${advice}`,
    );
    assert.equal(
      problems.at(-1),
      `~: Forbidden: x-kubernetes-validations estimated rule & messageExpression cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x ${advice}`,
    );
  });
  test('with limits they are accepted', () => {
    const limited = { type: 'array', maxItems: 25, items: { type: 'string', maxLength: 500 } };
    assert.deepEqual(withRule(limited, "self.all(x, x.contains('a string'))"), []);
    assert.deepEqual(
      withRule(
        { type: 'array', maxItems: 25, items: { type: 'string' } },
        "self.all(x, x.contains('a string'))",
      ),
      [],
    );
  });
  test('a factor is told where it means something', () => {
    const limited = { type: 'array', maxItems: 1_000, items: { type: 'string', maxLength: 100 } };
    assert.match(
      withRule(limited, 'self.all(x, self.exists_one(y, x == y))')[0] ?? '',
      /by factor of \d+\.\dx /,
    );
  });
  test('a rule inside of lists counts as often as it can apply', () => {
    const item = (extra: object): object => ({
      type: 'object',
      properties: { a: { type: 'string', maxLength: 1_000 } },
      'x-kubernetes-validations': [{ rule: "self.a.matches('^[a-z]*$')" }],
      ...extra,
    });
    assert.deepEqual(refusals(resource({ type: 'array', maxItems: 100, items: item({}) })), []);
    assert.equal(refusals(resource({ type: 'array', items: item({}) })).length, 3);
  });
  test('what is common is accepted without limits', () => {
    const spec = {
      type: 'object',
      properties: {
        name: { type: 'string' },
        n: { type: 'integer' },
        m: { type: 'integer' },
        list: { type: 'array', items: { type: 'string' } },
        map: { type: 'object', additionalProperties: { type: 'string' } },
      },
    };
    for (const source of [
      'self == oldSelf',
      'self.name == oldSelf.name && self.n >= oldSelf.n && self.m == oldSelf.m',
      "has(self.name) ? self.name.startsWith('a') : self.n > 0",
      'self.list.size() < 5 && self.map.size() < 5',
      "self.name.matches('^[a-z]+$')",
      "self.list.all(x, x != '')",
      "!('a' in self.map) || self.map['a'] == 'b'",
      "self.name in ['a', 'b', 'c']",
    ]) {
      assert.deepEqual(withRule(spec, source), [], source);
    }
  });
});
