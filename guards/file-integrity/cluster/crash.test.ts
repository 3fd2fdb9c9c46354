// The operator is killed before every write that it makes, which is after the one before; the next one comes to the same state.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { KubeClient } from '../../../lib/kube/client/client.ts';
import { findClusterAccess } from '../../../lib/kube/access/cluster-access.ts';
import { configMaps, type ResourceType, roleBindings, secrets } from '../../../lib/kube/object/object.ts';
import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { sampled, seed } from '../../../lib/testing/depth.fixture.ts';
import { names, released } from '../api.ts';
import { requestAnnotation, requestsOf } from '../results/node-requests.ts';
import { nodeStatusName } from '../results/object-names.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { failed, gone, TestCluster, testNamespace } from './cluster.fixture.ts';
import { agentRole, baselineKeySecret } from './caches.ts';
import { reinitCount } from './reinit.ts';

/** From this write on, no request comes through. */
class DyingClient extends KubeClient {
  readonly #at: number;
  #writes = 0;
  readonly dead = new AbortController();

  constructor(kubeconfig: string, at: number) {
    super(findClusterAccess({ path: kubeconfig }), { perSecond: 1000, burst: 1000 });
    this.#at = at;
  }

  async #write<T>(type: ResourceType, write: () => Promise<T>): Promise<T> {
    this.dead.signal.throwIfAborted();
    if (type.plural === 'leases' || ++this.#writes !== this.#at) return await write();
    this.dead.abort(new Error('killed'));
    throw this.dead.signal.reason;
  }

  get writes(): number {
    return this.#writes;
  }

  override create: KubeClient['create'] = (type, ...rest) =>
    this.#write(type, () => super.create(type, ...rest));
  override update: KubeClient['update'] = (type, ...rest) =>
    this.#write(type, () => super.update(type, ...rest));
  override patch: KubeClient['patch'] = (type, ...rest) =>
    this.#write(type, () => super.patch(type, ...rest));
  override apply: KubeClient['apply'] = (type, ...rest) =>
    this.#write(type, () => super.apply(type, ...rest));
  override delete: KubeClient['delete'] = (type, ...rest) =>
    this.#write(type, () => super.delete(type, ...rest));
}

const accept = { kind: 'accept', id: 'acce97', path: '', author: 'alice', reason: 'the update' } as const;

/** A FileIntegrity with a node that had succeeded; a failed result, a request that is done with it, and one to be made. */
async function prepare(cluster: TestCluster, name: string): Promise<void> {
  for (const [type, object] of [
    [secrets, baselineKeySecret],
    [roleBindings, agentRole],
  ] as const) {
    await cluster.client.delete(type, { namespace: testNamespace, name: object }).catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
    });
  }
  const { metadata } = await cluster.createIntegrity(name);
  await cluster.annotate(name, { [names.reinit]: 'n1' });
  const { uid = '' } = metadata;
  const owner = {
    apiVersion: `${released.group}/v1alpha1`,
    kind: 'FileIntegrity',
    name,
    uid,
    controller: true,
  };
  await cluster.client.create(released.nodeStatuses, {
    metadata: {
      namespace: testNamespace,
      name: nodeStatusName(name, 'n1'),
      annotations: requestAnnotation(accept),
      ownerReferences: [owner],
    },
    nodeName: 'n1',
    results: [{ condition: 'Succeeded', lastProbeTime: '2026-01-01T00:00:00Z' }],
    lastResult: { condition: 'Succeeded', lastProbeTime: '2026-01-01T00:00:00Z' },
    sequence: 1,
  });
  const more = { sequence: 2, atMs: Date.UTC(2026, 0, 2), doneRequests: [accept.id] };
  await cluster.write(cluster.result(name, 'n1', failed(1, 2, 3), more));
}

/** The state when all is done; undefined before that. */
async function finalState(cluster: TestCluster, name: string): Promise<object | undefined> {
  const integrity = await cluster.integrity(name);
  const status = await cluster.status(name, 'n1');
  const kept = await cluster.kept(name, 'n1');
  const temporary = await cluster.temporary();
  const active = await cluster.configMap(name);
  const secret = await gone(
    cluster.client.get(secrets, { namespace: testNamespace, name: baselineKeySecret }),
  );
  const binding = await gone(cluster.client.get(roleBindings, { namespace: testNamespace, name: agentRole }));
  const notes = [
    ...(await cluster.notes('NodeIntegrityStatus')),
    ...(await cluster.notes('NodeIntegrityAccepted')),
  ];
  const reported = new Set(notes.filter((note) => note.includes(`aide-${name}-`) || note.includes('alice')));
  if (kept === undefined || active === undefined || secret === undefined || binding === undefined)
    return undefined;
  if (
    temporary.length > 0 ||
    reported.size < 2 ||
    integrity.metadata.annotations?.[names.reinit] !== undefined
  )
    return undefined;
  // Whoever only reads events has to learn of the phase too.
  const phases = (await cluster.events()).filter(
    ({ reason, regarding, note }) =>
      reason === 'FileIntegrityStatus' && regarding?.name === name && note === 'Initializing',
  );
  if (phases.length === 0) return undefined;
  if (integrity.status?.phase !== 'Initializing' || integrity.status.nodeStatus?.length !== 2)
    return undefined;
  const { results, lastResult, sequence, findings, metadata } = status ?? {};
  const requests = requestsOf(metadata?.annotations).map(({ kind }) => kind);
  const annotations = integrity.metadata.annotations ?? {};
  const state = {
    node: { results, lastResult, sequence, findings, requests },
    kept: kept.data,
    count: annotations[reinitCount],
    nodeStatus: integrity.status.nodeStatus,
  };
  return JSON.parse(JSON.stringify(state).replaceAll(`aide-${name}-`, 'aide-NAME-')) as object;
}

test(`killed at any write, the next one comes to the same state (RAMPART_TEST_SEED=${seed})`, async () => {
  await using cluster = await TestCluster.start();
  await cluster.createNode('n1');
  // The same identity: the lease of the one that was killed is its own.
  const identity = 'operator';
  await prepare(cluster, 'whole');
  using counting = new DyingClient(cluster.kubeconfig, Infinity);
  const stop = cluster.startOperator({ identity, client: counting });
  const expected = await until('the whole', () => finalState(cluster, 'whole'));
  await stop();
  const { writes } = counting;
  assert.ok(writes > 8 && writes < 60, `${writes} writes`);
  assert.deepEqual((expected as { node: { requests: unknown } }).node.requests, ['re-init']);
  assert.equal((expected as { count: unknown }).count, '1');
  let kills = 0;
  // And once more, which need not come to it.
  const all = Array.from({ length: writes + 1 }, (_, before) => before + 1);
  const chosen = sampled(all, 1);
  for (const at of chosen) {
    const name = `killed-${at}`;
    await prepare(cluster, name);
    using client = new DyingClient(cluster.kubeconfig, at);
    const { dead } = client;
    const end = cluster.startOperator({ identity, client });
    await until(
      'its end',
      async () => dead.signal.aborted || (await finalState(cluster, name)) !== undefined,
    );
    if (dead.signal.aborted) kills++;
    // It cannot do anything any longer, and takes its time to give up its events.
    const ended = end();
    const next = cluster.startOperator({ identity });
    const state = await until(`the state after write ${at}`, () => finalState(cluster, name));
    assert.deepEqual(state, expected, `killed at write ${at}`);
    await next();
    await ended;
    // Not to have it in the way of the next.
    await cluster.client.delete(released.integrities, { namespace: testNamespace, name });
    await until(
      'it is gone',
      async () =>
        (await gone(cluster.client.get(configMaps, { namespace: testNamespace, name }))) === undefined,
    );
  }
  // A later run makes fewer writes than the first, which also made what belongs to the whole cluster; never fewer than half.
  const certain = chosen.filter((at) => at <= writes / 2);
  assert.ok(kills >= certain.length, `killed ${kills} times, to be killed at ${chosen.join()} of ${writes}`);
});
