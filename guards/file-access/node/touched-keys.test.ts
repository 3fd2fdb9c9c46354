import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import { TouchedKeys } from './touched-keys.ts';

/** A slice has no end by time, as it has on a machine where the process gets no CPU for 10 ms. */
function stopClock({ mock }: TestContext): void {
  mock.method(performance, 'now', () => 0);
}

test('each key once for a burst, and again when it is touched again', async (t) => {
  stopClock(t);
  const seen: string[] = [];
  let slices = 0;
  using keys = new TouchedKeys({
    each: (key) => seen.push(key),
    onProblem: () => assert.fail(),
    onSliceEnd: () => void slices++,
  });
  for (const key of ['a', 'b', 'a']) keys.add(key);
  assert.deepEqual(seen, []);
  await turn();
  assert.deepEqual(seen, ['a', 'b']);
  assert.equal(slices, 1);
  keys.add('a');
  keys.flush();
  assert.deepEqual(seen, ['a', 'b', 'a']);
  await turn();
  assert.equal(seen.length, 3);
});

test('a failing key delays no other; others have their turn between slices', async () => {
  /** Keyed by key: in which turn of the loop. */
  const seen = new Map<number, number>();
  const problems: number[] = [];
  let turns = 0;
  using keys = new TouchedKeys<number>({
    each: (key) => {
      if (key === 1) throw new Error('one');
      // Longer than a slice.
      const endMs = performance.now() + 12;
      while (performance.now() < endMs);
      seen.set(key, turns);
    },
    onProblem: (_error, key) => problems.push(key),
  });
  for (const key of [1, 2, 3]) keys.add(key);
  // A machine that is busy may end a slice earlier.
  for (; seen.size < 2; turns++) await turn();
  assert.deepEqual([...seen.keys()], [2, 3]);
  assert.ok((seen.get(2) ?? 0) < (seen.get(3) ?? 0));
  assert.deepEqual(problems, [1]);
  assert.equal(keys.size, 0);
});

test('a failed key is retried until it succeeds', async (t) => {
  stopClock(t);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let fails = 2;
  const problems: string[] = [];
  const seen: string[] = [];
  using keys = new TouchedKeys({
    each: (key) => {
      if (key === 'bad' && fails-- > 0) throw new Error('not now');
      seen.push(key);
    },
    onProblem: (_error, key) => problems.push(key),
  });
  for (const key of ['bad', 'good']) keys.add(key);
  for (let round = 1; round <= 3; round++) {
    await turn();
    assert.equal(problems.length, Math.min(round, 2));
    assert.equal(keys.size, 0);
    t.mock.timers.tick(5000);
  }
  assert.deepEqual(seen, ['good', 'bad']);
  t.mock.timers.tick(60_000);
  await turn();
  assert.deepEqual([seen.length, problems], [2, ['bad', 'bad']]);
});

test('a failed key is not retried after disposal', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let tries = 0;
  const keys = new TouchedKeys({
    each: () => {
      tries++;
      throw new Error('never');
    },
    onProblem: () => undefined,
  });
  keys.add('a');
  await turn();
  keys[Symbol.dispose]();
  t.mock.timers.tick(5000);
  await turn();
  assert.deepEqual([tries, keys.size], [1, 0]);
});

test('no key is handled after disposal', async () => {
  const keys = new TouchedKeys({ each: () => assert.fail(), onProblem: () => assert.fail() });
  keys.add('a');
  keys[Symbol.dispose]();
  await turn();
  assert.equal(keys.size, 0);
});
