import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { ManualClock } from '../../time/clock.fixture.ts';
import { WorkQueue, type WorkQueueOptions } from './workqueue.ts';

const steady = { baseMs: 100, maxMs: 1000, jitter: 0 };

function queueWith(options: WorkQueueOptions = {}): { queue: WorkQueue; clock: ManualClock } {
  const clock = new ManualClock();
  return { clock, queue: new WorkQueue({ clock, backoff: steady, ...options }) };
}

function drain(queue: WorkQueue): string[] {
  const keys: string[] = [];
  for (let key = queue.tryGet(); key !== undefined; key = queue.tryGet()) {
    keys.push(key);
    queue.done(key);
  }
  return keys;
}

suite('workqueue', () => {
  test('hands out a queued key once, in the order in which keys were first added', () => {
    const { queue } = queueWith();
    for (const key of ['a', 'b', 'a', 'c', 'b']) queue.add(key);
    assert.equal(queue.depth, 3);
    assert.deepEqual(drain(queue), ['a', 'b', 'c']);
  });

  test('a key added while a worker has it waits until that one is done', () => {
    const { queue } = queueWith();
    queue.add('a');
    assert.equal(queue.tryGet(), 'a');
    queue.add('a');
    queue.add('a');
    assert.equal(queue.tryGet(), undefined);
    queue.done('a');
    assert.equal(queue.tryGet(), 'a');
    queue.done('a');
    assert.equal(queue.tryGet(), undefined);
  });

  test('done for a key without a worker is refused', () => {
    const { queue } = queueWith();
    assert.throws(() => queue.done('a'), { code: 'RAMPART_INPUT' });
    queue.add('a');
    assert.throws(() => queue.done('a'), { code: 'RAMPART_INPUT' });
  });

  test('get waits for a key; those who wait are served in order', async () => {
    const { queue } = queueWith();
    const gets = [queue.get(), queue.get()];
    queue.add('a');
    queue.add('b');
    assert.deepEqual(await Promise.all(gets), ['a', 'b']);
  });

  test('an aborted get takes no key', async () => {
    const { queue } = queueWith();
    const controller = new AbortController();
    const reason = new Error('enough');
    const aborted = queue.get(controller.signal);
    const patient = queue.get();
    controller.abort(reason);
    await assert.rejects(aborted, reason);
    queue.add('a');
    assert.equal(await patient, 'a');
    await assert.rejects(queue.get(controller.signal), reason);
  });

  test('a key is not lost when its getter is aborted just after it was handed over', async () => {
    const { queue } = queueWith();
    const controller = new AbortController();
    const get = queue.get(controller.signal);
    queue.add('a');
    controller.abort();
    assert.equal(await get, 'a');
  });

  test('addAfter: the earliest time counts, and each key comes once', () => {
    const { queue, clock } = queueWith();
    queue.addAfter('late', 500);
    queue.addAfter('a', 300);
    queue.addAfter('a', 100);
    queue.addAfter('a', 200);
    queue.addAfter('now', 0);
    assert.deepEqual(drain(queue), ['now']);
    clock.advanceSync(99);
    assert.deepEqual(drain(queue), []);
    clock.advanceSync(1);
    assert.deepEqual(drain(queue), ['a']);
    assert.equal(queue.stats().delayed, 1);
    clock.advanceSync(1000);
    assert.deepEqual(drain(queue), ['late']);
    assert.equal(clock.timers, 0);
  });

  test('addRateLimited: each failure doubles the delay up to the longest; forget starts anew', () => {
    const { queue, clock } = queueWith();
    const delays: number[] = [];
    for (let i = 0; i < 6; i++) {
      const startMs = clock.monotonicMs();
      queue.addRateLimited('a');
      while (queue.depth === 0) clock.advanceSync(1);
      delays.push(clock.monotonicMs() - startMs);
      drain(queue);
    }
    assert.deepEqual(delays, [100, 200, 400, 800, 1000, 1000]);
    assert.equal(queue.retries('a'), 6);
    queue.forget('a');
    assert.equal(queue.retries('a'), 0);
    queue.addRateLimited('a');
    clock.advanceSync(100);
    assert.equal(queue.depth, 1);
  });

  test('addRateLimited: the retries of all keys together are limited', () => {
    const { queue, clock } = queueWith({
      backoff: { baseMs: 0, maxMs: 0 },
      retryLimit: { perSecond: 2, burst: 3 },
    });
    for (let i = 0; i < 7; i++) queue.addRateLimited(`${i}`);
    assert.equal(queue.depth, 3);
    clock.advanceSync(1000);
    assert.equal(queue.depth, 5);
    clock.advanceSync(1000);
    assert.equal(queue.depth, 7);
  });

  test('levels: the urgent first, and a key moves up but never down', () => {
    const { queue } = queueWith();
    queue.add('low', { level: 1 });
    queue.add('up', { level: 1 });
    queue.add('top');
    queue.add('up', { level: 0 });
    queue.add('top', { level: 1 });
    assert.deepEqual(drain(queue), ['top', 'up', 'low']);
  });

  test('levels: a level below a stream that never ends is served in time', () => {
    const { queue } = queueWith();
    queue.add('low', { level: 1 });
    queue.add('lower', { level: 1 });
    const keys: string[] = [];
    for (let i = 0; i < 25; i++) {
      queue.add(`top ${i}`);
      const key = queue.tryGet() as string;
      queue.done(key);
      keys.push(key);
    }
    assert.equal(keys.indexOf('low'), 10);
    assert.equal(keys.indexOf('lower'), 21);
  });

  test('shutDown: drops what waits and what is delayed; every get returns undefined', async () => {
    const { queue, clock } = queueWith();
    queue.add('a');
    queue.add('b');
    queue.addAfter('c', 10);
    assert.equal(await queue.get(), 'a');
    queue.add('a');
    queue.shutDown();
    queue.add('d');
    queue.addAfter('d', 5);
    queue.addRateLimited('d');
    assert.equal(await queue.get(), undefined);
    queue.done('a');
    assert.equal(await queue.get(), undefined);
    assert.deepEqual([clock.timers, queue.depth, queue.stats().processing], [0, 0, 0]);
  });

  test('shutDown wakes who waits', async () => {
    const { queue } = queueWith();
    const get = queue.get();
    queue.shutDown();
    assert.equal(await get, undefined);
  });

  test('stats: depth, latency, duration, retries, the longest running', () => {
    const { queue, clock } = queueWith();
    queue.add('a');
    queue.add('b', { level: 1 });
    queue.add('b', { level: 1 });
    clock.advanceSync(30);
    queue.tryGet();
    clock.advanceSync(10);
    queue.add('a');
    clock.advanceSync(5);
    queue.tryGet();
    assert.deepEqual(queue.stats(), {
      depth: [0, 0],
      delayed: 0,
      processing: 2,
      added: 4,
      retried: 0,
      done: 0,
      latencyMsSum: 75,
      durationMsSum: 0,
      longestRunningMs: 15,
    });
    queue.done('a');
    clock.advanceSync(7);
    queue.tryGet();
    queue.addRateLimited('c');
    const { latencyMsSum, durationMsSum } = queue.stats();
    assert.deepEqual([latencyMsSum, durationMsSum], [87, 15]);
    assert.deepEqual([queue.stats().retried, queue.stats().delayed, queue.stats().added], [1, 1, 4]);
  });

  test('latency counts from the first add, also when the key moves up or is added again meanwhile', () => {
    const { queue, clock } = queueWith();
    queue.add('a', { level: 1 });
    clock.advanceSync(10);
    queue.add('a');
    clock.advanceSync(10);
    queue.tryGet();
    queue.add('a');
    clock.advanceSync(3);
    queue.add('a');
    clock.advanceSync(4);
    queue.done('a');
    queue.tryGet();
    assert.equal(queue.stats().latencyMsSum, 20 + 7);
  });

  test('refuses a backoff that cannot work', () => {
    assert.throws(() => new WorkQueue({ backoff: { baseMs: 2, maxMs: 1 } }), { code: 'RAMPART_INPUT' });
  });
});
