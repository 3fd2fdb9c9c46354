import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { sleep as waiting } from '../../time/clock.ts';
import { ManualClock } from '../../time/clock.fixture.ts';
import { unreachable } from '../client/client-errors.ts';
import type { KubeObject, ResourceType, Target } from '../object/object.ts';
import { limit, reflect } from './reflector.fixture.ts';
import type { WatchEvent, WatchOptions } from '../client/watch.ts';

suite('reflector: backoff', limit, () => {
  /** Watches that end as `next` says, `lastsMs` after they began. */
  function endless(clock: ManualClock, next: () => { lastsMs: number; error: boolean }) {
    const started: number[] = [];
    return {
      started,
      listItems: () => Promise.resolve({ resourceVersion: '5' }),
      async *watch<T extends KubeObject>(
        _: ResourceType<T>,
        __?: Target,
        options?: WatchOptions,
      ): AsyncGenerator<WatchEvent<T>, void> {
        started.push(clock.monotonicMs());
        const { lastsMs, error } = next();
        await waiting(clock, lastsMs, options?.signal);
        yield* [];
        if (error) throw unreachable('watch', 'test');
      },
    };
  }

  test('grows with each failure, and begins anew after a watch that lasted', async () => {
    const clock = new ManualClock(0);
    const lasting = [0, 0, 0, 0, 40_000, 0, 0];
    const client = endless(clock, () => ({ lastsMs: lasting.shift() ?? 1e9, error: true }));
    await using _ = reflect(client, {
      clock,
      backoff: { baseMs: 1000, maxMs: 4000, jitter: 0 },
      healthyMs: 30_000,
    });
    await clock.advance(80_000);
    const gaps = client.started.map((atMs, index) => atMs - (client.started[index - 1] ?? 0));
    assert.deepEqual(gaps, [0, 1000, 2000, 4000, 4000, 41_000, 2000, 4000]);
  });

  test('a watch that ends well after its time is followed by the next at once; one that ends early is not', async () => {
    const clock = new ManualClock(0);
    const lasting = [300_000, 10, 300_000];
    const client = endless(clock, () => ({ lastsMs: lasting.shift() ?? 1e9, error: false }));
    await using _ = reflect(client, { clock, backoff: { baseMs: 1000, maxMs: 4000, jitter: 0 } });
    await clock.advance(700_000);
    assert.deepEqual(client.started, [0, 300_000, 301_010, 601_010]);
  });
});
