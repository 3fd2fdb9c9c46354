import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { Tombstones } from './tombstones.ts';

suite('tombstones', () => {
  test('a deletion covers what was before it, of that object', () => {
    const tombstones = new Tombstones();
    tombstones.add('a', '20');
    assert.deepEqual(
      ['9', '20', '21'].map((version) => tombstones.covers('a', version)),
      [true, true, false],
    );
    assert.equal(tombstones.covers('b', '9'), false);
    tombstones.add('a', '15');
    assert.equal(tombstones.covers('a', '18'), true);
    tombstones.delete('a');
    assert.equal(tombstones.covers('a', '18'), false);
  });

  test('a list covers everything up to its version', () => {
    const tombstones = new Tombstones();
    tombstones.add('a', '20');
    tombstones.reset('15');
    assert.deepEqual([tombstones.covers('b', '15'), tombstones.covers('a', '16')], [true, false]);
  });

  test('with too many, the oldest still count as what has been seen', () => {
    const tombstones = new Tombstones(2);
    for (const [key, version] of Object.entries({ a: '10', b: '20', c: '30', d: '40' })) {
      tombstones.add(key, version);
    }
    assert.deepEqual(
      [tombstones.covers('a', '10'), tombstones.covers('new', '20'), tombstones.covers('new', '21')],
      [true, true, false],
    );
    assert.equal(tombstones.covers('c', '29'), true);
  });

  test('versions that cannot be compared are unknown', () => {
    const tombstones = new Tombstones();
    tombstones.add('a', 'x');
    assert.equal(tombstones.covers('a', 'w'), false);
    tombstones.reset('z');
    assert.equal(tombstones.covers('b', 'w'), false);
  });
});
