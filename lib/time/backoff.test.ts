import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../testing/fast-check.fixture.ts';
import { Backoff, backoffDelayMs, KeyedBackoff } from './backoff.ts';

suite('backoff', () => {
  test('doubles from the base up to the longest', () => {
    const backoff = new Backoff({ baseMs: 100, maxMs: 1000, jitter: 0 });
    const delays = Array.from({ length: 6 }, () => backoff.nextMs());
    assert.deepEqual(delays, [100, 200, 400, 800, 1000, 1000]);
    assert.equal(backoff.attempts, 6);
    backoff.reset();
    assert.equal(backoff.nextMs(), 100);
  });

  test('jitter takes off up to its share, and never leads beyond the bounds', () => {
    assert.equal(backoffDelayMs(3, { baseMs: 10, maxMs: 1000, jitter: 0.5, random: () => 0.5 }), 60);
    fc.assert(
      fc.property(
        fc.nat(),
        fc.double({ min: 0, max: 1000, noNaN: true }),
        fc.double({ min: 1, max: 100, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (attempt, baseMs, factor, jitter, random) => {
          const options = { baseMs, maxMs: baseMs * factor, jitter, random: () => random };
          const delay = backoffDelayMs(attempt, options);
          assert.ok(delay >= baseMs * (1 - jitter) - 1e-9 && delay <= options.maxMs, `${delay}`);
        },
      ),
    );
  });

  test('each key has its own, until it is forgotten', () => {
    const backoff = new KeyedBackoff<string>({ baseMs: 1, maxMs: 100, jitter: 0 });
    assert.deepEqual([backoff.nextMs('a'), backoff.nextMs('a'), backoff.nextMs('b')], [1, 2, 1]);
    assert.deepEqual([backoff.attempts('a'), backoff.attempts('b'), backoff.attempts('c')], [2, 1, 0]);
    backoff.forget('a');
    assert.deepEqual([backoff.nextMs('a'), backoff.size], [1, 2]);
  });

  for (const options of [
    { baseMs: -1, maxMs: 1 },
    { baseMs: 2, maxMs: 1 },
    { baseMs: 1, maxMs: 2, jitter: 1.1 },
    { baseMs: NaN, maxMs: 2 },
  ]) {
    test(`refuses ${JSON.stringify(options)}`, () => {
      assert.throws(() => new Backoff(options), { code: 'RAMPART_INPUT' });
      assert.throws(() => new KeyedBackoff(options), { code: 'RAMPART_INPUT' });
    });
  }
});
