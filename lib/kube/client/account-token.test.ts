import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { ManualClock } from '../../time/clock.fixture.ts';
import { AccountToken } from './account-token.ts';
import { serve } from './api-server.fixture.ts';
import { isNotFound } from './client-errors.ts';
import { KubeClient } from './client.ts';

const minuteMs = 60_000;

suite('the token of a service account', () => {
  test('is renewed at half of its time; without a new one the last is used until its end', async () => {
    const clock = new ManualClock();
    let isAway = false;
    await using server = await serve((_received, response, count) => {
      response.writeHead(isAway ? 404 : 201, { 'content-type': 'application/json' });
      response.end(
        JSON.stringify(isAway ? { kind: 'Status', code: 404 } : { status: { token: `token-${count}` } }),
      );
    });
    using client = new KubeClient(server.access);
    const token = new AccountToken(client, { namespace: 'a', name: 'reader' }, clock);
    const now = async (): Promise<string | undefined> => (await token.current()).authorization;

    assert.deepEqual(await Promise.all([now(), now()]), ['Bearer token-0', 'Bearer token-0']);
    const [{ method, url, body } = {}] = server.received;
    assert.deepEqual([method, url], ['POST', '/api/v1/namespaces/a/serviceaccounts/reader/token']);
    const { kind, spec } = JSON.parse(body ?? '') as Record<string, unknown>;
    assert.deepEqual({ kind, spec }, { kind: 'TokenRequest', spec: { expirationSeconds: 600 } });

    await clock.advance(5 * minuteMs - 1);
    assert.equal(await now(), 'Bearer token-0');
    await clock.advance(1);
    assert.equal(await now(), 'Bearer token-1');

    isAway = true;
    await clock.advance(6 * minuteMs);
    assert.equal(await now(), 'Bearer token-1');
    assert.equal(await now(), 'Bearer token-1');
    assert.equal(server.received.length, 3, 'a failure holds for seconds');
    await clock.advance(4 * minuteMs);
    await assert.rejects(now(), (error: Error) => {
      assert.match(error.message, /^there is no token of the service account a\/reader: .*404/);
      return !isNotFound(error);
    });

    isAway = false;
    await clock.advance(5000);
    assert.equal(await now(), 'Bearer token-4');
    token.invalidate(await token.current());
    assert.equal(await now(), 'Bearer token-5');
  });
});
