import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../testing/fast-check.fixture.ts';
import { ManualClock } from './clock.fixture.ts';
import { TokenBucket } from './rate-limit.ts';

suite('token bucket', () => {
  test('a burst at once, then at the rate', () => {
    const clock = new ManualClock();
    const bucket = new TokenBucket({ perSecond: 10, burst: 3, clock });
    const delays = Array.from({ length: 6 }, () => Math.round(bucket.reserveMs()));
    assert.deepEqual(delays, [0, 0, 0, 100, 200, 300]);
    clock.advanceSync(300);
    assert.equal(bucket.tryTake(), false);
    clock.advanceSync(100);
    assert.equal(bucket.tryTake(), true);
    clock.advanceSync(60_000);
    assert.deepEqual(
      Array.from({ length: 4 }, () => bucket.tryTake()),
      [true, true, true, false],
    );
  });

  test('those who wait are served in order; an aborted wait gives its token back', async () => {
    const clock = new ManualClock();
    const bucket = new TokenBucket({ perSecond: 10, burst: 1, clock });
    const controller = new AbortController();
    const order: string[] = [];
    await bucket.take();
    const aborted = bucket.take(controller.signal);
    const waiting = ['b', 'c'].map((name) => bucket.take().then(() => order.push(name)));
    const reason = new Error('stop');
    controller.abort(reason);
    await assert.rejects(aborted, reason);
    await clock.advance(199);
    assert.deepEqual(order, []);
    await clock.advance(101);
    await Promise.all(waiting);
    assert.deepEqual(order, ['b', 'c']);
    await clock.advance(100);
    assert.equal(bucket.tryTake(), true, 'the token that was given back');
    assert.equal(clock.timers, 0);
  });

  test('Infinity limits nothing', async () => {
    const bucket = new TokenBucket({ perSecond: Infinity, burst: 1 });
    for (let i = 0; i < 1000; i++) assert.equal(await bucket.take(), 0);
    assert.equal(bucket.tryTake(), true);
  });

  test('in no span of time do more pass than the burst and the rate allow', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 50 }),
        fc.integer({ min: 1, max: 10 }),
        fc.array(fc.nat(300), { maxLength: 100, size: 'max' }),
        (perSecond, burst, pauses) => {
          const clock = new ManualClock(0);
          const bucket = new TokenBucket({ perSecond, burst, clock });
          const times: number[] = [];
          for (const pauseMs of pauses) {
            clock.advanceSync(pauseMs);
            times.push(clock.monotonicMs() + bucket.reserveMs());
          }
          for (let from = 0; from < times.length; from++) {
            for (let to = from; to < times.length; to++) {
              const spanS = ((times[to] ?? 0) - (times[from] ?? 0)) / 1000;
              assert.ok(to - from + 1 <= burst + perSecond * spanS + 1e-6);
            }
          }
        },
      ),
      { numRuns: 50 },
    );
  });

  for (const options of [
    { perSecond: 0, burst: 1 },
    { perSecond: 1, burst: 0 },
    { perSecond: NaN, burst: 1 },
  ]) {
    test(`refuses ${options.perSecond} per second, burst ${options.burst}`, () => {
      assert.throws(() => new TokenBucket(options), { code: 'RAMPART_INPUT' });
    });
  }
});
