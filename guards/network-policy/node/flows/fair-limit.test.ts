import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { FairLimit } from './fair-limit.ts';

function limitOf(perSecond: number) {
  const time = { nowMs: 5_000_000 };
  const limit = new FairLimit({ perSecond, clock: { monotonicMs: () => time.nowMs } });
  const taken = (key: string, count: number): number =>
    Array.from({ length: count }, () => limit.take(key)).filter((folded) => folded !== undefined).length;
  return { limit, taken, time };
}

suite('a limited number per second', () => {
  test('and no more, whichever key; the next one taken says how many of its key were folded', () => {
    const { limit, taken, time } = limitOf(2);
    assert.deepEqual(
      Array.from({ length: 4 }, () => limit.take('a')),
      [0, 0, undefined, undefined],
    );
    assert.equal(limit.take('b'), undefined);
    time.nowMs += 999;
    assert.equal(limit.take('a'), undefined);
    time.nowMs += 1;
    assert.deepEqual([limit.take('a'), limit.take('b')], [3, 1]);
    assert.equal(taken('c', 5), 0);
  });

  test('a frequent key leaves the others what they request, and gets all that they leave', () => {
    const { taken, time } = limitOf(100);
    const ask = () => ({
      often: taken('often', 1000),
      seldom: Array.from({ length: 20 }, (_, at) => taken(`seldom-${at}`, 2)).reduce((a, b) => a + b),
    });
    // Nothing is known of the first second.
    assert.deepEqual(ask(), { often: 100, seldom: 0 });
    for (let second = 0; second < 3; second++) {
      time.nowMs += 1000;
      assert.deepEqual(ask(), { often: 60, seldom: 40 });
    }
    // One that is alone has all of it after one more second.
    time.nowMs += 1000;
    assert.equal(taken('often', 1000), 60);
    time.nowMs += 1000;
    assert.equal(taken('often', 1000), 100);
  });

  test('more keys than the limit: one each, first come', () => {
    const { taken, time } = limitOf(3);
    const keys = ['a', 'b', 'c', 'd', 'e'];
    const ask = () => keys.map((key) => taken(key, 2));
    assert.deepEqual(ask(), [2, 1, 0, 0, 0]);
    time.nowMs += 1000;
    assert.deepEqual(ask(), [1, 1, 1, 0, 0]);
  });

  test('after a pause, whoever comes has all of it', () => {
    const { taken, time } = limitOf(4);
    taken('a', 10);
    taken('b', 10);
    time.nowMs += 2000;
    assert.equal(taken('a', 10), 4);
  });

  test('the keys that it remembers are limited', () => {
    const { limit, time } = limitOf(1);
    limit.take('a');
    limit.take('a');
    for (let key = 0; key < 4096; key++) limit.take(String(key));
    time.nowMs += 1000;
    assert.equal(limit.take('a'), 0);
  });
});
