import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';

import { createServer } from '../../lib/net/node-http.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { anonymous } from '../../lib/kube/access/credentials.ts';
import { policyOf, trapOn } from '../../guards/file-access/policy/policy.fixture.ts';
import { fileAccess } from '../../guards/file-access/guard.ts';
import { fileIntegrity } from '../../guards/file-integrity/guard.ts';
import type { Guard } from '../../guard/guard.ts';
import { guards as allGuards } from '../guards.ts';
import { askCluster } from './ask.ts';
import type { JsonReport } from './found.fixture.ts';
import { patience } from '../../lib/testing/until.fixture.ts';

/** With kinds of their own, and work of the operator. */
const guards = [fileAccess, fileIntegrity];

type Answers = (path: string) => { readonly status: number; readonly body: object };

/** Asks a server that answers so. */
async function askOf(answers: Answers, namespace?: string, asking: readonly Guard[] = guards) {
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
    const signal = patience();
    const { examined } = await askCluster({ client, guards: asking, server: 'stub', namespace, signal });
    return { asked, report: examined.report as JsonReport };
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

const microTime = (ms: number): string => new Date(ms).toISOString().replace('Z', '000Z');

test('policies are enough: other forbidden resources are reported, each once', async () => {
  const { report } = await askOf((path) =>
    path.endsWith('/kivepolicies') ? listOf(policyOf('p', trapOn('/x'))) : refusal(403, 'Forbidden'),
  );
  assert.equal(report.policies.length, 1);
  assert.deepEqual(
    [report.fileIntegrities, report.kiveData.total, report.operator.state, report.nodes],
    [null, null, 'unknown', []],
  );
  assert.deepEqual(
    report.guards.map(({ state, objects }) => [state, objects]),
    [
      ['unknown', 1],
      ['unknown', null],
    ],
  );
  // It is unknown whether an agent is alive.
  assert.equal(report.guarded, false);
  assert.deepEqual(report.notRead.map(({ resource }) => resource).toSorted(), [
    'fileintegrities',
    'kivedata in kivebpf-system',
    'kivenodestatuses in kivebpf-system',
    'leases in rampart-system',
    'nodes',
    'pods',
    'pods in rampart-system',
  ]);
});

test('a guard whose objects may not be read is in the report without them', async () => {
  const { report } = await askOf((path) => {
    if (path === '/apis/kivebpf.san7o.github.io/v1')
      return { status: 200, body: { resources: [{ name: 'kivepolicies' }, { name: 'kivedata' }] } };
    return path.endsWith('/kivepolicies') ? refusal(403, 'Forbidden') : listOf();
  });
  assert.deepEqual(
    report.guards.map(({ state, objects, guarded }) => [state, objects, guarded]),
    [
      ['not-running', null, false],
      ['not-running', 0, true],
    ],
  );
  assert.deepEqual(
    [report.guarded, report.policies, report.kiveData],
    [false, null, { total: 0, orphans: null }],
  );
  assert.deepEqual(
    report.notRead.map(({ resource }) => resource),
    ['kivepolicies'],
  );
});

test('an API server refuses what it does not serve, too: a guard of such kinds is not installed', async () => {
  const group = '/apis/fileintegrity.openshift.io/v1alpha1';
  const { asked, report } = await askOf((path) =>
    path === group
      ? { status: 200, body: { resources: [{ name: 'somethingelse' }] } }
      : path.startsWith('/apis/fileintegrity.') || path.startsWith('/apis/file-integrity.')
        ? path.split('/').length === 4
          ? refusal(404, 'NotFound')
          : refusal(403, 'Forbidden')
        : listOf(),
  );
  assert.deepEqual(
    report.guards.map(({ state, objects }) => [state, objects]),
    [
      ['not-running', 0],
      ['not-installed', 0],
    ],
  );
  assert.deepEqual([report.guarded, report.notRead], [true, []]);
  assert.equal(asked.filter((path) => path === group).length, 1);
});

test('with an API that fails in another way, there is no report', async () => {
  await assert.rejects(
    askOf((path) => (path.endsWith('/leases') ? refusal(500, 'InternalError') : listOf())),
    { status: 500 },
  );
});

test('only the objects of one namespace', async () => {
  const { asked } = await askOf(() => listOf(), 'shop');
  for (const path of [
    '/apis/kivebpf.san7o.github.io/v1/namespaces/shop/kivepolicies',
    '/apis/fileintegrity.openshift.io/v1alpha1/namespaces/shop/fileintegrities',
    '/api/v1/nodes',
    '/apis/coordination.k8s.io/v1/namespaces/rampart-system/leases',
  ]) {
    assert.equal(asked.filter((one) => one === path).length, 1, path);
  }
});

test('a guard whose kinds are not served is not installed; without any, Rampart is not installed', async () => {
  const without = (pattern: RegExp) =>
    askOf((path) => (pattern.test(path) ? refusal(404, 'NotFound') : listOf()));
  for (const [pattern, states] of [
    [/kivebpf\.san7o/, ['not-installed', 'not-running']],
    [/integrity\.openshift/, ['not-running', 'not-installed']],
    [/file-integrity\.openshift/, ['not-running', 'not-running']],
  ] as const) {
    const { report } = await without(pattern);
    assert.deepEqual(
      report.guards.map((guard) => guard.state),
      states,
    );
    assert.deepEqual([report.policies, report.fileIntegrities, report.guarded], [[], [], true]);
  }
  await assert.rejects(without(/kivebpf\.san7o|integrity\.openshift/), {
    code: 'RAMPART_NOT_FOUND',
    message: /^stub does not serve KivePolicy or FileIntegrity: Rampart is not installed there\. Install it/,
  });
});

test('kinds of Kubernetes itself do not make an API one where Rampart is installed', async () => {
  const builtin = /^\/api\/v1\/|\/apis\/([a-z]+|[a-z.]+\.k8s\.io)\//;
  await assert.rejects(
    askOf((path) => (builtin.test(path) ? listOf() : refusal(404, 'NotFound')), undefined, allGuards),
    { code: 'RAMPART_NOT_FOUND', message: /Rampart is not installed there/ },
  );
});

test('a lock that looks old is looked at again: clocks may differ', async () => {
  let reads = 0;
  const { report } = await askOf((path) => {
    if (!path.endsWith('/leases')) return listOf();
    reads++;
    const lease = (name: string, renewTime: string) => ({
      metadata: { name },
      spec: { holderIdentity: 'n', leaseDurationSeconds: 10, renewTime },
    });
    return listOf(
      lease('rampart-operator', `2026-01-01T00:00:0${reads}.000000Z`),
      lease('other', '2026-01-01T00:00:00.000000Z'),
    );
  });
  assert.equal(reads, 2);
  assert.deepEqual([report.operator.state, report.operator.holder], ['held', 'n']);
  // It says of no guard that it runs.
  assert.deepEqual(
    report.guards.map(({ operator }) => operator?.state),
    ['off', 'off'],
  );
});

test('a lock without a holder', async () => {
  const spec = { holderIdentity: '', renewTime: '2026-01-01T00:00:00.000000Z' };
  const { report } = await askOf((path) =>
    path.endsWith('/leases') ? listOf({ metadata: { name: 'rampart-operator' }, spec }) : listOf(),
  );
  assert.deepEqual([report.operator.state, report.operator.holder], ['free', null]);
  assert.deepEqual(
    report.guards.map(({ operator }) => operator),
    [null, null],
  );
});

test('Leases of agents have the node and its guards; they are not locks and are not waited for', async () => {
  let reads = 0;
  const id = '0e8e63a6-51a7-4b04-9f1c-3c0a4f7d9a10';
  const agent = (name: string, node: string, renewedMs: number) => ({
    metadata: {
      name,
      labels: { 'rampart.dev/agent': node },
      annotations: {
        'rampart.dev/node': node,
        'rampart.dev/guards': '{"file-access":{"state":"unavailable","reason":"no BPF"}}',
      },
    },
    spec: { holderIdentity: `holder_${id}`, leaseDurationSeconds: 90, renewTime: microTime(renewedMs) },
  });
  const { report } = await askOf((path) => {
    if (path.endsWith('/kivepolicies')) return listOf(policyOf('p', trapOn('/x')));
    if (path.endsWith('/nodes')) return listOf({ metadata: { name: 'n1' } }, { metadata: { name: 'n2' } });
    if (!path.endsWith('/leases')) return listOf();
    reads++;
    return listOf(
      // Whatever they are called.
      agent(id, 'n1', Date.now() - 60_000),
      agent('kive', 'n2', Date.now() - 100_000),
      agent('rampart-agent-n3', 'n3', Date.now() - 3_600_000),
    );
  });
  assert.equal(reads, 1);
  assert.deepEqual(
    report.nodes.map(({ name, agent: state, kernel }) => [name, state, kernel]),
    [
      ['n1', 'running', null],
      ['n2', 'dead', null],
    ],
  );
  assert.equal(report.operator.state, 'free');
  assert.deepEqual(report.guards[0]?.notOn, [{ name: 'n1', state: 'unavailable', reason: 'no BPF' }]);
});

test('the lease of a kernel is not waited for while the agent that holds it is seen', async () => {
  const kernel = '5d2c1c2e-0c44-4d0a-9a55-0a5f4c9c3f10';
  const holderIdentity = 'n1_0e8e63a6-51a7-4b04-9f1c-3c0a4f7d9a10';
  let reads = 0;
  const readOf = async (loads: boolean, agentSeenMs: number) => {
    reads = 0;
    const reported = { 'file-access': { state: 'running', facts: { loads } } };
    const { report } = await askOf((path) => {
      if (path.endsWith('/kivepolicies')) return listOf(policyOf('p', trapOn('/x')));
      if (path.endsWith('/nodes'))
        return listOf({ metadata: { name: 'n1' }, status: { nodeInfo: { bootID: kernel } } });
      if (!path.endsWith('/leases')) return listOf();
      reads++;
      const annotations = { 'rampart.dev/node': 'n1', 'rampart.dev/guards': JSON.stringify(reported) };
      return listOf(
        {
          metadata: { name: 'rampart-agent-n1', labels: { 'rampart.dev/agent': 'n1' }, annotations },
          spec: { holderIdentity, leaseDurationSeconds: 30, renewTime: microTime(agentSeenMs) },
        },
        {
          metadata: { name: kernel, labels: { 'rampart.dev/kernel': kernel } },
          spec: { holderIdentity, leaseDurationSeconds: 10, renewTime: microTime(0) },
        },
      );
    });
    return [reads, report.nodes[0]?.loader.state];
  };
  assert.deepEqual(await readOf(true, Date.now()), [1, 'held']);
  assert.deepEqual(await readOf(false, Date.now()), [1, 'stale']);
});
