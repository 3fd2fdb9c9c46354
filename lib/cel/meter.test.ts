import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { sampled } from '../testing/depth.fixture.ts';
import { Scope } from './environment.ts';
import { measured, perCallLimit } from './meter.ts';
import { compile } from './program.ts';
import type { CelType } from './types.ts';

const list: CelType = { kind: 'list', element: { kind: 'string' } };

function run(source: string, self: unknown): { cost: number; exceeded: boolean; value?: unknown } {
  const program = compile(source, 'bool', new Scope({ self: { type: list } }));
  assert.ok(typeof program !== 'string', String(program));
  return program.run({ self });
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
    for (const source of sampled(
      [
        'self.all(x, self.all(y, self.all(z, x + y + z != "")))',
        'self.exists(x, self.exists(y, self.exists(z, x + y == z)))',
        'self.map(x, self.map(y, self.map(z, x + y + z))).size() > 0',
        'self.all(x, self.exists_one(y, self.filter(z, z == y).size() == 1))',
        'self.all(i, x, self.all(j, y, self.all(k, z, i + j + k >= 0)))',
      ],
      2,
    )) {
      const outcome = run(source, items(1_000));
      assert.ok(outcome.exceeded, source);
      assert.ok(outcome.cost < perCallLimit * 1.2, `${source}: ${outcome.cost}`);
    }
  });

  test('so are functions that make much of little', () => {
    const long = ['x'.repeat(100_000)];
    for (const source of sampled(
      [
        "self.map(a, a.replace('', a).size()).sum() > 0",
        "self.map(a, a.split('').map(c, a).size()).sum() > 0 && self[0].split('').all(c, self[0].contains(c + c + c))",
        "self[0].split('').all(c, self[0] + c != '')",
        "self[0].split('').all(c, self[0].matches('(x+x+)+y') == false)",
        "[self[0] + 'a'].all(x, [self[0] + 'b'].all(y, self[0].split('').all(c, x != y)))",
        "[self[0].split('')].all(l, [self[0].split('')].all(m, l.all(c, l == m)))",
        "[timestamp(0)].all(t, self[0].split('').all(c, t.getHours('Europe/Berlin') < 24))",
        "self[0].split('').all(c, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1].size() > 0)",
        "sets.equivalent(self[0].split(''), self[0].split(''))",
      ],
      3,
    )) {
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

  test('endless recursion is reported as an outcome', () => {
    const endless = (): unknown => endless();
    assert.ok(measured(endless).error instanceof RangeError);
  });
});

test('the budget ends what is cheap to write and takes long', () => {
  const scope = new Scope({ object: { type: { kind: 'dyn' } } });
  const object = {
    numbers: Array.from({ length: 20_000 }, (_, index) => index),
    pods: Array.from({ length: 500 }, (_, index) => ({
      name: `pod-${index}`,
      labels: { app: 'web', index },
    })),
    l: Array.from({ length: 60 }, (_, index) => index),
  };
  for (const source of sampled(
    [
      'object.l.all(a, object.l.all(b, object.l.all(c, object.l.all(d, a + b + c + d >= 0))))',
      "object.numbers.all(n, '%s'.format([object.pods]) != '')",
      "object.numbers.all(n, 'a'.matches('b' + string(n)) == false)",
      'object.numbers.all(n, object.numbers.sum() > 0 && object.numbers.max() > 0)',
      'object.numbers.all(n, object.numbers.indexOf(19999) > 0)',
      "object.numbers.all(n, isSemver('1.2.3-' + string(n)))",
      'object.pods.all(p, object.pods.all(q, object.pods == object.pods.map(r, r)))',
    ],
    2,
  )) {
    const program = compile(source, 'bool', scope);
    assert.ok(typeof program !== 'string', String(program));
    assert.ok(program.run({ object }).exceeded, source);
  }
});
