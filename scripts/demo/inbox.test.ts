import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Inbox } from './inbox.ts';

const never = new AbortController().signal;

test('takes all up to the one that was waited for, and leaves the rest', async () => {
  const inbox = new Inbox<number>();
  for (const number of [1, 2, 3, 4]) inbox.push(number);
  assert.deepEqual(await inbox.takeUntil((number) => number === 3, never), [1, 2, 3]);
  assert.deepEqual(await inbox.takeUntil(() => true, never), [4]);
});

test('waits for what has not arrived', async () => {
  const inbox = new Inbox<number>();
  inbox.push(1);
  const taken = inbox.takeUntil((number) => number === 3, never);
  inbox.push(2);
  await Promise.resolve();
  inbox.push(3);
  assert.deepEqual(await taken, [1, 2, 3]);
});

test('a closed inbox hands out what it has, then its reason', async () => {
  const inbox = new Inbox<number>();
  inbox.push(1);
  const waiting = inbox.takeUntil((number) => number === 2, never);
  inbox.close(new Error('the end'));
  await assert.rejects(waiting, /the end/);
  assert.deepEqual(await inbox.takeUntil(() => true, never), [1]);
  await assert.rejects(
    inbox.takeUntil(() => true, never),
    /the end/,
  );
});

test('the signal ends the wait with its reason', async () => {
  const inbox = new Inbox<number>();
  const stop = new AbortController();
  const waiting = inbox.takeUntil(() => true, stop.signal);
  stop.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
});
