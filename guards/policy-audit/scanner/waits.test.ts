import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import { untilListed } from './waits.ts';

test('a list that goes on is waited for, one that does not come is not', async () => {
  const clock = new ManualClock();
  const listed = Promise.withResolvers<void>();
  const long = { isSynced: false, synced: listed.promise, size: 0 };
  const never = { isSynced: false, synced: new Promise<void>(() => undefined), size: 0 };
  const { signal } = new AbortController();
  let hasEnded = false;
  const waiting = untilListed([long, never], 1000, signal, clock).then((isGoing) => {
    hasEnded = true;
    return isGoing;
  });
  for (let step = 1; step <= 5; step++) {
    long.size = step * 100;
    await clock.advance(1000);
    assert.equal(hasEnded, false, `after ${step} s`);
  }
  long.isSynced = true;
  listed.resolve();
  await clock.advance(1000);
  await clock.advance(1000);
  assert.equal(await waiting, true);
});
