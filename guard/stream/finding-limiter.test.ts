import assert from 'node:assert/strict';
import { test } from 'node:test';

import { FindingLimiter } from './finding-limiter.ts';

test('the first ones of a minute pass, the next one of another minute has the number of folded ones', () => {
  let nowMs = 5_000_000;
  const limiter = new FindingLimiter({ limit: 2, clock: { monotonicMs: () => nowMs } });
  const take = (key: string, count: number) => Array.from({ length: count }, () => limiter.take(key));
  assert.deepEqual(take('a', 4), [0, 0, undefined, undefined]);
  assert.deepEqual(take('b', 1), [0]);
  nowMs += 59_999;
  assert.deepEqual(take('a', 1), [undefined]);
  nowMs += 1;
  assert.deepEqual(take('a', 3), [3, 0, undefined]);
  assert.equal(limiter.folded, 4);
});

test('the keys that it remembers are limited; what it has folded stays counted', () => {
  const limiter = new FindingLimiter({ limit: 1, clock: { monotonicMs: () => 1 } });
  limiter.take('a');
  limiter.take('a');
  for (let key = 0; key < 4096; key++) limiter.take(String(key));
  assert.equal(limiter.take('a'), 0);
  assert.equal(limiter.folded, 1);
});
