import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { PendingChanges } from './pending.ts';

suite('paths that wait for their report', () => {
  test('a path is reported when it has settled, with all changes until then', () => {
    const pending = new PendingChanges(50, 500);
    pending.add('/a', 1, 1000, 0, 'event');
    pending.add('/b', 1, 1020, 0, 'event');
    pending.add('/a', 4, 1040, 0, 'record');
    pending.add('/a', 0, 1045, 0, 'below');
    assert.equal(pending.nextDueMs, 1050);
    assert.deepEqual(pending.take(1049, 10), []);
    assert.equal(pending.oldestMs, 1000);
    assert.deepEqual(pending.take(1050, 10), [
      { path: '/a', bits: 5, events: 1, below: true, addedMs: 1000, sinceMs: 0 },
    ]);
    assert.equal(pending.oldestMs, 1020);
    assert.equal(pending.nextDueMs, 1070);
    assert.deepEqual(
      pending.take(2000, 10).map(({ path }) => path),
      ['/b'],
    );
    assert.equal(pending.nextDueMs, Infinity);
    assert.equal(pending.oldestMs, Infinity);
  });

  test('the number of paths is bounded, and exceeding it is reported once', () => {
    const max = 100;
    const pending = new PendingChanges(50, 500, max);
    for (let i = 0; i < 1000; i++) pending.add(`/${i}`, 1, 1000, 0, 'event');
    assert.equal(pending.kept, max);
    // A path that already waits takes no more room.
    pending.add('/0', 2, 1000, 0, 'event');
    assert.deepEqual([pending.takeOverflow(), pending.takeOverflow()], [true, false]);
    const taken = pending.take(1050, 1000);
    assert.deepEqual(
      taken.map(({ path }) => path),
      Array.from({ length: max }, (_, i) => `/${i}`),
    );
    assert.equal(taken[0]?.bits, 3);
    for (let round = 1; round <= 50; round++) {
      for (let i = 0; i < max; i++) pending.add(`/${round}-${i}`, 1, 2000, 0, 'event');
      assert.equal(pending.take(3000, 1000).length, max);
      assert.ok(pending.kept <= 2 * max, `${pending.kept}`);
    }
    assert.equal(pending.takeOverflow(), false);
    pending.rotate();
    pending.rotate();
    assert.ok(pending.empty);
  });

  test('a path that keeps changing is reported at its pace', () => {
    const pending = new PendingChanges(50, 500);
    pending.add('/a', 1, 1000, 0, 'event');
    pending.take(1050, 10);
    pending.add('/a', 1, 1060, 0, 'event');
    assert.equal(pending.nextDueMs, 1550);
    pending.rotate();
    assert.equal(pending.take(1550, 10).length, 1);
    pending.rotate();
    pending.rotate();
    assert.equal(pending.empty, true);
    pending.add('/a', 1, 4000, 0, 'event');
    assert.equal(pending.nextDueMs, 4050);
  });

  test('no more than asked for is taken, and the rest stays due', () => {
    const pending = new PendingChanges(50, 500);
    for (const path of ['/a', '/b', '/c']) pending.add(path, 1, 1000, 0, 'event');
    assert.equal(pending.take(1050, 2).length, 2);
    assert.deepEqual([pending.size, pending.nextDueMs], [1, 1050]);
  });

  test('in any order of events, the last change of each path is reported after it came', () => {
    const step = fc.record({
      path: fc.constantFrom('/a', '/b', '/c'),
      bit: fc.integer({ min: 0, max: 7 }),
      afterMs: fc.nat(300),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.nat(1000), (steps, paceMs) => {
        const pending = new PendingChanges(50, paceMs);
        const added = new Map<string, number>();
        const reported = new Map<string, number>();
        let nowMs = 0;
        const takeAll = (): void => {
          for (const { path, bits } of pending.take(nowMs, 2))
            reported.set(path, (reported.get(path) ?? 0) | bits);
        };
        for (const { path, bit, afterMs } of steps) {
          nowMs += afterMs;
          if (pending.nextDueMs <= nowMs) takeAll();
          pending.add(path, 1 << bit, nowMs, 0, 'event');
          added.set(path, (added.get(path) ?? 0) | (1 << bit));
        }
        while (pending.nextDueMs !== Infinity) {
          nowMs = Math.max(nowMs, pending.nextDueMs);
          takeAll();
        }
        assert.deepEqual(reported, added);
      }),
    );
  });
});
