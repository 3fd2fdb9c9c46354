import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { ManualClock } from '../../../../lib/time/clock.fixture.ts';
import { until } from '../../../../lib/testing/until.fixture.ts';
import { NetworkNamespace, namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import { nodeRules } from '../../dataplane/rules.fixture.ts';
import { Departed } from './departed.ts';

suite('connections of pods that are gone', { skip: namespaceObstacle() ?? false }, () => {
  test('failures to remove connections are reported once, and retried', async () => {
    using namespace = new NetworkNamespace();
    const warned: string[] = [];
    let isRefused = true;
    let tries = 0;
    const departed = new Departed({
      logger: { warn: (text: string) => void warned.push(text), info: () => undefined } as never,
      signal: AbortSignal.timeout(60_000),
      onForgotten: () => undefined,
      inNetwork: (work) => {
        tries++;
        if (isRefused) throw new RampartError(errorCodes.PRIVILEGE, { what: 'cannot read the connections' });
        return namespace.run(work);
      },
    });
    departed.programmed(nodeRules([{ name: 'x/a', addresses: { 4: '10.1.0.10', 6: 'fd00:1::10' } }], []));
    assert.equal(tries, 0);
    departed.programmed(nodeRules([], []));
    await until('it was tried twice', () => tries > 1);
    assert.deepEqual(warned, [
      'a pod may inherit the connections of one that is gone: cannot read the connections; retrying',
    ]);
    assert.equal(departed.problem, 'cannot read the connections');
    isRefused = false;
    await departed.settled();
    assert.equal(departed.problem, undefined);
  });

  test('connections are read the less often for pods of other nodes the longer it takes', async () => {
    using namespace = new NetworkNamespace();
    const clock = new ManualClock();
    let reads = 0;
    const departed = new Departed({
      logger: { warn: () => undefined, info: () => undefined } as never,
      signal: AbortSignal.timeout(60_000),
      onForgotten: () => undefined,
      inNetwork: (work) => {
        reads++;
        clock.advanceSync(8);
        return namespace.run(work);
      },
      clock,
    });
    for (const [waitMs, expected] of [
      [1000, 1],
      [4000, 2],
      [4000, 3],
    ] as const) {
      departed.programmed(nodeRules([], []), new Set(), ['10.1.0.9']);
      clock.advanceSync(waitMs - 1);
      assert.equal(clock.timers, 1);
      clock.advanceSync(1);
      await departed.settled();
      assert.equal(reads, expected);
    }
    clock.advanceSync(10_000);
    departed.programmed(nodeRules([], []), new Set(), ['10.1.0.9']);
    clock.advanceSync(1000);
    await departed.settled();
    assert.equal(reads, 4);
  });
});
