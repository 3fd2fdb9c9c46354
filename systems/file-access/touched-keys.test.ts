import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import { TouchedKeys } from './touched-keys.ts';

test('each key once for a burst, and again when it is touched again', async () => {
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

test('what fails keeps no other waiting; between slices others have their turn', async () => {
  const seen: number[] = [];
  const problems: number[] = [];
  using keys = new TouchedKeys<number>({
    each: (key) => {
      if (key === 1) throw new Error('one');
      // Longer than a slice.
      const endMs = performance.now() + 12;
      while (performance.now() < endMs);
      seen.push(key);
    },
    onProblem: (_error, key) => problems.push(key),
  });
  for (const key of [1, 2, 3]) keys.add(key);
  await turn();
  assert.deepEqual(seen, [2]);
  assert.deepEqual(problems, [1]);
  assert.equal(keys.size, 1);
  await turn();
  await turn();
  assert.deepEqual(seen, [2, 3]);
});

test('disposed, nothing is looked at any more', async () => {
  const keys = new TouchedKeys({ each: () => assert.fail(), onProblem: () => assert.fail() });
  keys.add('a');
  keys[Symbol.dispose]();
  await turn();
  assert.equal(keys.size, 0);
});
