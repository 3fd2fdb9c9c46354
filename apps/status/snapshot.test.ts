import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';

import { KubeClient } from '../../shared/kube/client.ts';
import { anonymous } from '../../shared/kube/credentials.ts';
import { policyOf, trapOn } from '../../systems/file-access/policy.fixture.ts';
import { takeSnapshot } from './snapshot.ts';

type Answers = (path: string) => { readonly status: number; readonly body: object };

/** Asks a server that answers so. */
async function snapshotOf(answers: Answers, namespace?: string) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? '', 'http://stub').pathname;
    asked.push(path);
    const { status, body } = answers(path);
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const { port } = server.address() as AddressInfo;
    using client = new KubeClient({
      server: new URL(`http://127.0.0.1:${port}`),
      credentials: anonymous,
      namespace: 'default',
    });
    const signal = AbortSignal.timeout(30_000);
    return { asked, snapshot: await takeSnapshot({ client, server: 'stub', namespace, signal }) };
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const listOf = (...items: readonly object[]) => ({
  status: 200,
  body: { metadata: { resourceVersion: '1' }, items },
});
const refusal = (code: number, reason: string) => ({
  status: code,
  body: { kind: 'Status', status: 'Failure', code, reason, message: 'so it is' },
});

test('policies are enough: what else may not be read is told, each once', async () => {
  const { snapshot } = await snapshotOf((path) =>
    path.endsWith('/kivepolicies') ? listOf(policyOf('p', trapOn('/x'))) : refusal(403, 'Forbidden'),
  );
  assert.equal(snapshot.policies.length, 1);
  assert.deepEqual(
    [snapshot.integrities, snapshot.data, snapshot.leases, snapshot.nodes, snapshot.agentPods, snapshot.pods],
    Array.from({ length: 6 }, () => undefined),
  );
  assert.deepEqual(snapshot.notRead.map(({ resource }) => resource).toSorted(), [
    'fileintegrities',
    'kivedata in kivebpf-system',
    'leases in kivebpf-system',
    'nodes',
    'pods',
    'pods in kivebpf-system',
  ]);
});

test('without policies, or with an API that fails in another way, nothing can be told', async () => {
  await assert.rejects(
    snapshotOf(() => refusal(403, 'Forbidden')),
    { status: 403, message: /cannot list kivepolicies/ },
  );
  await assert.rejects(
    snapshotOf((path) => (path.endsWith('/leases') ? refusal(500, 'InternalError') : listOf())),
    { status: 500 },
  );
});

test('one namespace; of pods those that run, with the containers that do', async () => {
  const pod = (name: string, phase: string, more: object = {}) => ({
    metadata: { name, namespace: 'shop', labels: { a: 'b' } },
    spec: { nodeName: 'n1', containers: [{ name: 'web' }, { name: 'side' }] },
    status: { phase, podIP: '10.0.0.1', ...more },
  });
  const { asked, snapshot } = await snapshotOf((path) => {
    if (path.endsWith('/kivepolicies')) return listOf(policyOf('p', trapOn('/x')));
    if (path === '/api/v1/pods') {
      return listOf(
        pod('told', 'Running', {
          containerStatuses: [
            { name: 'web', state: { running: {} } },
            { name: 'side', state: { waiting: {} } },
          ],
          ephemeralContainerStatuses: [{ name: 'debug', state: { running: {} } }],
        }),
        pod('untold', 'Running'),
        pod('done', 'Succeeded'),
        { metadata: { name: 'waits', namespace: 'shop' }, status: { phase: 'Pending' } },
      );
    }
    return listOf();
  }, 'shop');
  assert.ok(asked.includes('/apis/kivebpf.san7o.github.io/v1/namespaces/shop/kivepolicies'));
  assert.deepEqual(
    snapshot.pods?.map(({ view, containers }) => [view.metadata.name, containers]),
    [
      ['told', ['web', 'debug']],
      ['untold', ['web', 'side']],
    ],
  );
});

test('a lease that looks old is looked at again: clocks may differ', async () => {
  let reads = 0;
  const { snapshot } = await snapshotOf((path) => {
    if (!path.endsWith('/leases')) return listOf();
    reads++;
    const lease = (name: string, renewTime: string) => ({
      metadata: { name },
      spec: { holderIdentity: 'n', leaseDurationSeconds: 10, renewTime },
    });
    return listOf(
      lease('renewed', `2026-01-01T00:00:0${reads}.000000Z`),
      lease('left', '2026-01-01T00:00:00.000000Z'),
      { metadata: { name: 'free' }, spec: { renewTime: '2026-01-01T00:00:00.000000Z' } },
    );
  });
  assert.equal(reads, 2);
  assert.deepEqual(
    snapshot.leases?.map(({ name, holder, isRenewed }) => [name, holder, isRenewed]),
    [
      ['renewed', 'n', true],
      ['left', 'n', false],
      ['free', '', false],
    ],
  );
});
