import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { type Freshness, SingleFlightCache } from './single-flight-cache.ts';

interface Ask {
  readonly signal: AbortSignal;
  readonly answer: PromiseWithResolvers<number>;
}

function cacheOf(fresh: Freshness, maxEntries = 10) {
  const clock = { nowMs: 0, monotonicMs: () => clock.nowMs };
  const cache = new SingleFlightCache<number>({ fresh, maxEntries, clock });
  const asked: Ask[] = [];
  const ask = (signal: AbortSignal): Promise<number> => {
    const answer = Promise.withResolvers<number>();
    asked.push({ signal, answer });
    return answer.promise;
  };
  return { clock, cache, asked, ask };
}

suite('a cache with one request at a time', () => {
  test('by its start: joined and given again for that long, then asked anew', async () => {
    const { clock, cache, asked, ask } = cacheOf({ sinceStartMs: 1000 });
    const both = [cache.get('a', ask), cache.get('a', ask)];
    clock.nowMs = 900;
    asked[0]?.answer.resolve(7);
    assert.deepEqual(await Promise.all(both), [7, 7]);
    clock.nowMs = 999;
    assert.equal(await cache.get('a', ask), 7);
    clock.nowMs = 1000;
    const slow = cache.get('a', ask);
    // What has changed since that request began may not be in its answer.
    clock.nowMs = 2000;
    const next = cache.get('a', ask);
    asked[2]?.answer.resolve(9);
    asked[1]?.answer.resolve(8);
    assert.deepEqual(await Promise.all([slow, next, cache.get('a', ask)]), [8, 9, 9]);
    assert.equal(asked.length, 3);
  });

  test('by its end: joined until it ends, and given again for a time that depends on how long it took', async () => {
    const { clock, cache, asked, ask } = cacheOf({ sinceEndMs: (tookMs) => 2 * tookMs });
    const first = cache.get('a', ask);
    clock.nowMs = 5000;
    const second = cache.get('a', ask);
    asked[0]?.answer.resolve(7);
    assert.deepEqual(await Promise.all([first, second]), [7, 7]);
    clock.nowMs = 14_999;
    assert.equal(await cache.get('a', ask), 7);
    clock.nowMs = 15_000;
    const anew = cache.get('a', ask);
    asked[1]?.answer.resolve(8);
    assert.equal(await anew, 8);
  });

  test('asked anew on request; a failure goes to all who wait, and is not kept', async () => {
    const { cache, asked, ask } = cacheOf({ sinceStartMs: 1000 });
    const old = cache.get('a', ask);
    const present = cache.get('a', ask, { isAnew: true });
    asked[0]?.answer.resolve(1);
    asked[1]?.answer.resolve(2);
    assert.deepEqual(await Promise.all([old, present, cache.get('a', ask)]), [1, 2, 2]);
    const failing = [cache.get('b', ask), cache.get('b', ask)];
    asked[2]?.answer.reject(new Error('no answer'));
    for (const one of failing) await assert.rejects(one, { message: 'no answer' });
    const synchronous = (): Promise<number> => {
      throw new Error('at once');
    };
    await assert.rejects(cache.get('b', synchronous), { message: 'at once' });
    const after = cache.get('b', ask);
    asked[3]?.answer.resolve(3);
    assert.equal(await after, 3);
  });

  test('keeps no more than its bound, and nothing that is no longer fresh when another is asked for', async () => {
    const { clock, cache, ask, asked } = cacheOf({ sinceStartMs: 10 }, 2);
    const answered = async (key: string): Promise<number> => {
      const answer = cache.get(key, ask);
      asked.at(-1)?.answer.resolve(asked.length);
      return answer;
    };
    assert.deepEqual([await answered('a'), await answered('b'), await answered('c')], [1, 2, 3]);
    assert.equal(cache.size, 2);
    assert.deepEqual([await answered('b'), await answered('a')], [2, 4]);
    clock.nowMs = 10;
    assert.equal(await answered('d'), 5);
    assert.equal(cache.size, 1);
  });

  test('who aborts waits no longer; the request ends when nobody waits', async () => {
    const { cache, asked, ask } = cacheOf({ sinceStartMs: 1000 });
    const [one, two, late] = [new AbortController(), new AbortController(), new AbortController()];
    const first = cache.get('a', ask, { signal: one.signal });
    const second = cache.get('a', ask, { signal: two.signal });
    one.abort(new Error('gone'));
    await assert.rejects(first, { message: 'gone' });
    assert.equal(asked[0]?.signal.aborted, false);
    two.abort(new Error('gone too'));
    await assert.rejects(second, { message: 'gone too' });
    assert.equal(asked[0]?.signal.aborted, true);
    assert.equal(cache.size, 0);
    // What comes from it later goes to no caller.
    asked[0]?.answer.reject(new Error('aborted'));
    const other = cache.get('a', ask, { signal: late.signal });
    asked[1]?.answer.resolve(5);
    assert.equal(await other, 5);
    late.abort();
    assert.deepEqual([asked[1]?.signal.aborted, cache.size], [false, 1]);
    await assert.rejects(cache.get('a', ask, { signal: late.signal }), { name: 'AbortError' });
    assert.equal(asked.length, 2);
  });
});
