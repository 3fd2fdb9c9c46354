import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
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
});
