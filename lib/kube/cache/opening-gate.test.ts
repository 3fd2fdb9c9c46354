import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import { createLogger } from '../../telemetry/log.ts';
import { ManualClock } from '../../time/clock.fixture.ts';
import { pods } from '../object/object.ts';
import { OpeningGate } from './opening-gate.ts';
import type { ReflectorClient } from './reflector-options.ts';
import { SharedCaches } from './shared-caches.ts';

const { signal } = new AbortController();

suite('the gate for lists and watches', () => {
  test('four at a time, in order; who has waited for a second for its answer holds up nobody', async () => {
    const clock = new ManualClock();
    const gate = new OpeningGate(clock);
    const inside: number[] = [];
    const turns = Array.from({ length: 10 }, (_, at) =>
      gate.enter(signal).then((one) => {
        inside.push(at);
        return one;
      }),
    );
    await turn();
    assert.deepEqual(inside, [0, 1, 2, 3]);
    for (const one of await Promise.all(turns.slice(0, 2))) one[Symbol.dispose]();
    await turn();
    assert.deepEqual(inside, [0, 1, 2, 3, 4, 5]);
    // A turn ends once.
    (await turns[0])?.[Symbol.dispose]();
    await turn();
    assert.equal(inside.length, 6);
    await clock.advance(999);
    assert.equal(inside.length, 6);
    await clock.advance(1);
    assert.equal(inside.length, 10);
  });

  test('one that is not waited for any more is passed over', async () => {
    const gate = new OpeningGate(new ManualClock());
    const held = await Promise.all(Array.from({ length: 4 }, () => gate.enter(signal)));
    const stop = new AbortController();
    const stopped = gate.enter(stop.signal);
    let isIn = false;
    const last = gate.enter(signal).then(() => (isIn = true));
    stop.abort(new Error('enough'));
    await assert.rejects(stopped, /enough/);
    await turn();
    assert.equal(isIn, false);
    held[0]?.[Symbol.dispose]();
    await last;
  });

  test('all caches of a process share one: a watch that is open leaves it to the next', async () => {
    const asked: string[] = [];
    const answers: (() => void)[] = [];
    const stop = new AbortController();
    const aborted = new Promise<void>((resolve) => stop.signal.addEventListener('abort', () => resolve()));
    const answer = () => Promise.race([new Promise<void>((resolve) => answers.push(resolve)), aborted]);
    const client = {
      listItems: async () => {
        asked.push('list');
        await answer();
        return { resourceVersion: '1' };
      },
      watch: (_type: unknown, _target: unknown, { onOpen }: { onOpen: () => void }) => ({
        [Symbol.asyncIterator]: () => ({
          next: async () => {
            asked.push('watch');
            await answer();
            onOpen();
            await aborted;
            return { done: true, value: undefined };
          },
        }),
      }),
    } as unknown as ReflectorClient;
    await using caches = new SharedCaches({
      client,
      logger: createLogger({ level: 'silent' }),
      onFailure: (error) => assert.fail(String(error)),
    });
    using _stop = { [Symbol.dispose]: () => stop.abort() };
    for (let at = 0; at < 8; at++) caches.use({ type: pods, labelSelector: `n=${at}` }, stop.signal);
    let most = 0;
    for (let turns = 0; turns < 1000 && asked.length < 16; turns++) {
      await turn();
      most = Math.max(most, answers.length);
      answers.shift()?.();
    }
    assert.equal(most, 4);
    assert.deepEqual(asked.toSorted(), [...Array(8).fill('list'), ...Array(8).fill('watch')]);
  });
});
