import assert from 'node:assert/strict';
import { test } from 'node:test';

import { RecentAnswers } from './recent-answers.ts';

test('asks once, also while an answer takes longer than it is good for; then again', async () => {
  let nowMs = 0;
  const clock = { monotonicMs: () => nowMs };
  const answers = new RecentAnswers<number>({ forMs: 1000, most: 10, clock });
  let asked = 0;
  const waiting = Promise.withResolvers<number>();
  const slow = (): Promise<number> => {
    asked++;
    return waiting.promise;
  };
  const first = answers.get('a', slow);
  nowMs = 5000;
  const second = answers.get('a', slow);
  waiting.resolve(7);
  assert.deepEqual([await first, await second, asked], [7, 7, 1]);
  // It was asked five seconds ago.
  assert.equal(await answers.get('a', async () => 8), 8);
});

test('answers are kept for a short time, failures are not, and no more than so many', async () => {
  let nowMs = 0;
  const answers = new RecentAnswers<number>({ forMs: 10, most: 2, clock: { monotonicMs: () => nowMs } });
  let asked = 0;
  const ask = (key: string): Promise<number> => answers.get(key, async () => ++asked);
  assert.deepEqual(await Promise.all([ask('a'), ask('a')]), [1, 1]);
  nowMs = 9;
  assert.equal(await ask('a'), 1);
  nowMs = 10;
  assert.equal(await ask('a'), 2);
  await assert.rejects(answers.get('b', () => Promise.reject(new Error('none'))));
  assert.equal(await ask('b'), 3);
  await ask('c');
  assert.equal(answers.size, 2);
  assert.equal(await ask('a'), 5);
});
