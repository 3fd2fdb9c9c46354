import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { json, serve, status, type TestServer } from '../client/api-server.fixture.ts';
import { KubeClient } from '../client/client.ts';
import { KubeError } from '../client/client-errors.ts';
import { runElection } from './leader-election.ts';
import { LeaseServer } from './lease-api.fixture.ts';
import { leaseStore } from './lease-store.ts';
import type { Lease } from '../object/object.ts';

/** The leases endpoint of an API server, for one lease; `misbehave` may answer in its place. */
function serveLease(
  lease: LeaseServer,
  misbehave: (count: number) => 'no' | 'silence' | 'reset' | 'error' = () => 'no',
): Promise<TestServer> {
  return serve(({ method, url, body }, response, count) => {
    switch (misbehave(count)) {
      case 'silence':
        return;
      case 'reset':
        response.socket?.resetAndDestroy();
        return;
      case 'error':
        return json(response, 500, status(500, 'InternalError', 'etcdserver: request timed out'));
      case 'no':
    }
    const base = '/apis/coordination.k8s.io/v1/namespaces/rampart/leases';
    try {
      const sent = (body === '' ? undefined : JSON.parse(body)) as Lease;
      if (method === 'POST' && url === base)
        return json(response, 201, lease.create(sent.spec ?? {}, sent.metadata));
      if (url !== `${base}/operator`) return json(response, 404, status(404, 'NotFound', url));
      if (method === 'PUT') return json(response, 200, lease.update(sent));
      if (lease.lease === undefined) return json(response, 404, status(404, 'NotFound', 'no lease'));
      return json(response, 200, lease.lease);
    } catch (error) {
      assert.ok(error instanceof KubeError);
      return json(response, error.status, status(error.status, error.reason, 'no'));
    }
  });
}

suite('leader election over HTTP', () => {
  test(
    'five processes, a server that fails now and then: one at a time, each in its turn',
    { timeout: 60_000 },
    async () => {
      const lease = new LeaseServer();
      await using server = await serveLease(lease, (count) => {
        if (count % 11 === 5) return 'error';
        if (count % 13 === 7) return 'reset';
        return count % 17 === 9 ? 'silence' : 'no';
      });
      let leaders = 0;
      const faults: string[] = [];
      const led: string[] = [];
      const clients: KubeClient[] = [];
      const elections = ['a', 'b', 'c', 'd', 'e'].map((identity) => {
        const client = new KubeClient(server.access, { perSecond: Infinity });
        clients.push(client);
        const stop = new AbortController();
        return runElection({
          lock: leaseStore(client, { namespace: 'rampart', name: 'operator' }),
          identity,
          signal: stop.signal,
          leaseDurationSeconds: 3,
          renewDeadlineMs: 1500,
          retryPeriodMs: 20,
          lead: async (signal) => {
            if (leaders++ > 0) faults.push(`${identity} leads, and another does`);
            led.push(identity);
            // Some turns of renewing; or lost before that, which its next turn makes good.
            await delay(200, undefined, { signal }).catch(() => undefined);
            await delay(5);
            leaders--;
            if (!signal.aborted) stop.abort();
          },
        });
      });
      await Promise.all(elections);
      for (const client of clients) client[Symbol.dispose]();
      assert.deepEqual(faults, []);
      assert.deepEqual([...new Set(led)].toSorted(), ['a', 'b', 'c', 'd', 'e']);
      assert.ok((lease.lease?.spec?.leaseTransitions ?? 0) >= 4);
    },
  );

  test('locks of different names are independent', async () => {
    const paths: string[] = [];
    await using server = await serve(({ method, url, body }, response) => {
      paths.push(`${method} ${url.split('/').at(-1)}`);
      if (method === 'GET') return json(response, 404, status(404, 'NotFound', 'none'));
      json(response, 201, { ...JSON.parse(body), metadata: { resourceVersion: '1' } });
    });
    using client = new KubeClient(server.access);
    for (const name of ['kernel-1', 'kernel-2']) {
      await runElection({
        lock: leaseStore(client, { namespace: 'rampart', name }),
        signal: new AbortController().signal,
        lead: async () => undefined,
      });
    }
    assert.deepEqual(
      paths.filter((path) => path.startsWith('GET')),
      ['GET kernel-1', 'GET kernel-1', 'GET kernel-2', 'GET kernel-2'],
    );
    const [first, second] = server.received
      .filter(({ method }) => method === 'POST')
      .map(({ body }) => JSON.parse(body) as Lease);
    assert.deepEqual([first?.metadata.name, second?.metadata.name], ['kernel-1', 'kernel-2']);
    assert.deepEqual([first?.kind, first?.apiVersion], ['Lease', 'coordination.k8s.io/v1']);
    assert.notEqual(first?.spec?.holderIdentity, second?.spec?.holderIdentity, 'an identity is used once');
  });
});
