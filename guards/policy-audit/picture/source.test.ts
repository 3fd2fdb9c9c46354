import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { pictureOf } from './source.ts';

type Cell = Parameters<typeof pictureOf>[0][number];

function cell(policy: string, namespace: string, more: Partial<Cell> = {}): Cell {
  return { policy, namespace, fail: 0, error: 0, pass: 1, skip: 0, first: undefined, ...more };
}

suite('which policies fail where', () => {
  test('a cell for each pair, by how many objects fail, with one of them to go on with', () => {
    const first = { kind: 'Pod', name: 'web' };
    const { items } = pictureOf(
      [cell('b', 'shop', { fail: 12, first }), cell('a', 'shop'), cell('a', 'db', { error: 1 })],
      true,
    );
    assert.deepEqual(
      items.map(({ at, tone, mark }) => [at.join(' '), tone, mark]),
      [
        ['a db', 'warn', '?'],
        ['a shop', 'ok', ''],
        ['b db', 'blank', ''],
        ['b shop', 'level3', '12'],
      ],
    );
    assert.deepEqual(items.at(-1)?.next, ['audit', 'explain', 'pod/web', '-n', 'shop']);
  });

  test('those that fail most are drawn, and the others counted', () => {
    const many = Array.from({ length: 30 }, (_, at) => cell(`p${at}`, `n${at}`, { fail: at }));
    const { items, notes } = pictureOf(many, true);
    assert.equal(items.length, 24 * 24);
    assert.ok(items.some(({ at }) => at[0] === 'p29') && !items.some(({ at }) => at[0] === 'p5'));
    assert.deepEqual(notes, [
      '6 policies left out: those that fail least.',
      '6 namespaces left out: those that fail least.',
    ]);
    assert.deepEqual(pictureOf([], true).notes, ['No policy has been evaluated for an object yet.']);
    // A source without read rights says so itself.
    assert.deepEqual(pictureOf([], false).notes, []);
  });
});
