import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { createMetrics } from '../../telemetry/metrics.ts';
import { ManualClock } from '../../time/clock.fixture.ts';
import {
  type ControllerEnd,
  type ControllerOptions,
  done,
  type Reconcile,
  requeueAfter,
  runController,
} from './controller.ts';
import { createControllerMetrics } from './controller-metrics.ts';
import { WorkQueue } from './workqueue.ts';

interface Started {
  readonly clock: ManualClock;
  readonly queue: WorkQueue;
  readonly stop: AbortController;
  readonly end: Promise<ControllerEnd<string>>;
}

function start(reconcile: Reconcile<string>, options: Partial<ControllerOptions<string>> = {}): Started {
  const clock = new ManualClock();
  const queue = new WorkQueue({ clock, backoff: { baseMs: 100, maxMs: 1000, jitter: 0 } });
  const stop = new AbortController();
  const end = runController({ name: 'test', queue, reconcile, signal: stop.signal, clock, ...options });
  return { clock, queue, stop, end };
}

suite('controller', () => {
  test('reconciles added keys; stops on request', async () => {
    const seen: string[] = [];
    const { clock, queue, stop, end } = start(async (key) => {
      seen.push(key);
      return done;
    });
    queue.add('a');
    queue.add('b');
    await clock.advance(0);
    assert.deepEqual(seen, ['a', 'b']);
    stop.abort();
    assert.deepEqual(await end, { stillRunning: [] });
    assert.equal(await queue.get(), undefined);
    assert.equal(clock.timers, 0);
  });

  test('a failure is retried with backoff, a success ends the backoff', async () => {
    const times: number[] = [];
    const { clock, queue, stop, end } = start(async () => {
      times.push(clock.monotonicMs());
      if (times.length < 4) throw new Error('not yet');
      return done;
    });
    queue.add('a');
    await clock.advance(5000);
    assert.deepEqual(
      times.map((ms) => ms - (times[0] ?? 0)),
      [0, 100, 300, 700],
    );
    assert.equal(queue.retries('a'), 0);
    stop.abort();
    await end;
  });

  test('synchronous errors, and thrown values that are not errors, are contained', async () => {
    const thrown: unknown[] = [new TypeError('at once'), 'a string', undefined, null];
    const seen: string[] = [];
    const { clock, queue, stop, end } = start((key) => {
      seen.push(key);
      if (thrown.length > 0) throw thrown.shift();
      return Promise.resolve(done);
    });
    queue.add('a');
    await clock.advance(5000);
    assert.equal(seen.length, 5);
    queue.add('b');
    await clock.advance(0);
    assert.equal(seen.at(-1), 'b');
    stop.abort();
    await end;
  });

  test('requeueAfter asks again, and counts as no failure', async () => {
    const seen: string[] = [];
    const { clock, queue, stop, end } = start(async (key) => {
      seen.push(key);
      return seen.length < 3 ? requeueAfter(1000) : done;
    });
    queue.add('again');
    await clock.advance(999);
    assert.deepEqual(seen, ['again']);
    await clock.advance(100_000);
    assert.deepEqual(seen, ['again', 'again', 'again']);
    assert.equal(queue.retries('again'), 0);
    stop.abort();
    await end;
  });

  test('as many keys at the same time as there are workers', async () => {
    const running = new Set<string>();
    let max = 0;
    const release = Promise.withResolvers<void>();
    const { clock, queue, stop, end } = start(
      async (key) => {
        running.add(key);
        max = Math.max(max, running.size);
        await release.promise;
        running.delete(key);
        return done;
      },
      { workers: 3 },
    );
    for (const key of ['a', 'b', 'c', 'd', 'e']) queue.add(key);
    await clock.advance(0);
    assert.deepEqual([...running], ['a', 'b', 'c']);
    release.resolve();
    await clock.advance(0);
    assert.deepEqual([queue.stats().done, max], [5, 3]);
    stop.abort();
    await end;
  });

  test('over its time: the signal aborts, and it is retried', async () => {
    const reasons: unknown[] = [];
    let calls = 0;
    const { clock, queue, stop, end } = start(
      async (_key, signal) => {
        if (++calls > 1) return done;
        await new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            reasons.push(signal.reason);
            reject(signal.reason as Error);
          });
        });
        return done;
      },
      { timeoutMs: 1000 },
    );
    queue.add('a');
    await clock.advance(999);
    assert.equal(reasons.length, 0);
    await clock.advance(1);
    assert.match(String(reasons[0]), /took over 1000 ms/);
    await clock.advance(100);
    assert.equal(calls, 2);
    stop.abort();
    await end;
    assert.equal(clock.timers, 0);
  });

  test('one that ignores its signal loses its worker, but its key never gets a second one', async () => {
    const release = Promise.withResolvers<void>();
    const calls: string[] = [];
    const { clock, queue, stop, end } = start(
      async (key) => {
        calls.push(key);
        if (key === 'stuck' && calls.length === 1) await release.promise;
        return done;
      },
      { timeoutMs: 1000, graceMs: 500 },
    );
    queue.add('stuck');
    await clock.advance(0);
    queue.add('stuck');
    queue.add('b');
    await clock.advance(1499);
    assert.deepEqual(calls, ['stuck']);
    await clock.advance(10_000);
    assert.deepEqual(calls, ['stuck', 'b']);
    release.resolve();
    await clock.advance(0);
    assert.deepEqual(calls, ['stuck', 'b', 'stuck']);
    stop.abort();
    await end;
  });

  test('stop: running reconciles get their signal and time to end, nothing new begins', async () => {
    const calls: string[] = [];
    const { clock, queue, stop, end } = start(async (key, signal) => {
      calls.push(key);
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      await new Promise<void>((resolve) => void clock.schedule(300, resolve));
      calls.push(`${key} ended`);
      throw new Error('interrupted');
    });
    queue.add('a');
    queue.add('b');
    await clock.advance(0);
    stop.abort();
    await clock.advance(300);
    assert.deepEqual(await end, { stillRunning: [] });
    assert.deepEqual(calls, ['a', 'a ended']);
    await clock.advance(100_000);
    assert.equal(calls.length, 2);
  });

  test('stop: one that does not end is named after the grace time', async () => {
    const release = Promise.withResolvers<void>();
    const { clock, queue, stop, end } = start(async () => {
      await release.promise;
      return done;
    });
    queue.add('a');
    await clock.advance(0);
    stop.abort();
    let ended = false;
    void end.then(() => (ended = true));
    await clock.advance(29_999);
    assert.equal(ended, false);
    await clock.advance(1);
    assert.deepEqual(await end, { stillRunning: ['a'] });
    release.resolve();
    await clock.advance(0);
  });

  test('a controller whose signal aborted before it began does nothing', async () => {
    const queue = new WorkQueue();
    queue.add('a');
    const reconcile = (): Promise<never> => assert.fail('called');
    const end = await runController({ name: 'test', queue, reconcile, signal: AbortSignal.abort() });
    assert.deepEqual(end, { stillRunning: [] });
  });

  test('work that never waits leaves timers their turn', async () => {
    const queue = new WorkQueue();
    const stop = new AbortController();
    const signal = stop.signal;
    let calls = 0;
    // Each key asks for the next at once, for ever: only a timer can stop it.
    const reconcile = async (key: string): Promise<typeof done> => {
      calls++;
      queue.add(key === 'a' ? 'b' : 'a');
      return done;
    };
    queue.add('a');
    const end = runController({ name: 'test', queue, reconcile, signal });
    await delay(5);
    stop.abort();
    await end;
    assert.ok(calls > 0);
  });

  test('counts, under the name of the controller, while it runs', async () => {
    const metrics = await createMetrics();
    const outcomes: (() => Promise<typeof done>)[] = [
      async () => done,
      async () => requeueAfter(5000),
      async () => Promise.reject(new Error('again')),
    ];
    const { clock, queue, stop, end } = start((key) => outcomes[Number(key)]?.() ?? Promise.resolve(done), {
      metrics: createControllerMetrics(metrics),
    });
    for (const key of outcomes.keys()) queue.add(`${key}`);
    await clock.advance(10);
    const text = metrics.registry.metrics();
    for (const outcome of ['done', 'requeue', 'error']) {
      assert.match(text, new RegExp(`rampart_reconciles_total{controller="test",outcome="${outcome}"} 1\n`));
    }
    assert.match(text, /rampart_reconciles_total{controller="test",outcome="timeout"} 0\n/);
    assert.match(text, /rampart_workqueue_depth{controller="test",level="1"} 0\n/);
    assert.match(text, /rampart_workqueue_delayed{controller="test"} 2\n/);
    assert.match(text, /rampart_workqueue_retries_total{controller="test"} 1\n/);
    assert.match(text, /rampart_workqueue_longest_running_seconds{controller="test"} 0\n/);
    stop.abort();
    await end;
    assert.doesNotMatch(metrics.registry.metrics(), /controller="test"/);
  });

  for (const options of [{ workers: 0 }, { workers: 1.5 }, { timeoutMs: 0 }, { graceMs: -1 }]) {
    test(`refuses ${JSON.stringify(options)}`, async () => {
      await assert.rejects(start(async () => done, options).end, { code: 'RAMPART_INPUT' });
    });
  }
});
