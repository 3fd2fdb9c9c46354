import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import { LoopSlice } from './loop-slice.ts';

suite('slices of the event loop', () => {
  test('who waits goes on one a turn, in order', async () => {
    const slice = new LoopSlice(0);
    const order: string[] = [];
    let turns = 0;
    const counting = new AbortController();
    const counted = (async () => {
      for (; !counting.signal.aborted; turns++) await turn();
    })();
    const work = async (name: string): Promise<void> => {
      for (let round = 0; round < 3; round++) {
        await slice.next();
        order.push(`${name}${round}`);
      }
    };
    await Promise.all([work('a'), work('b'), work('c')]);
    counting.abort();
    await counted;
    assert.deepEqual(order, ['a0', 'b0', 'c0', 'a1', 'b1', 'c1', 'a2', 'b2', 'c2']);
    assert.ok(turns >= 8, `${turns} turns`);
  });

  test('a share is for one turn, whoever uses it', async () => {
    const slice = new LoopSlice(0);
    assert.equal(slice.over, false);
    assert.equal(slice.over, true);
    await turn();
    assert.equal(slice.over, false);
    assert.equal(new LoopSlice(1e9).over, false);
  });
});
