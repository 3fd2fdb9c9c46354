// The operator's work for KiveData without an agent. No sensor is needed: the objects are written here.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { systemNamespace } from '../../../guard/guard.ts';
import { operatorLease } from '../../../guard/operator-lease.ts';
import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { leases, namespaces, nodes, type Pod, pods } from '../../../lib/kube/object/object.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import {
  type KiveData,
  kiveDataNamespace,
  kiveDataType,
  kiveNodeStatusType,
  kivePolicyType,
} from '../api.ts';
import { kiveDataOf, nameFor } from '../kive-data.ts';
import { compilePolicy, type CompiledTrap } from '../policy/matching.ts';
import { movedTo, policyOf } from '../policy/policy.fixture.ts';
import { PolicyScope } from '../policy/policy-scope.ts';
import { TestCluster } from '../node/node.fixture.ts';
import { nodeStatusOf } from '../node/node-status.ts';
import type { PolicyPart } from '../policy-status-schema.ts';

const trap = { path: '/secret.txt', matchAny: [{ containerName: '.*' }] };
const partOfPolicy = { namespace: kiveDataNamespace, name: 'p' };
const quick = { graceMs: 300, releaseMs: 300 };

/** A cluster with a policy and two nodes on one kernel, and the KiveData of a pod as its agent would write it. */
async function start(): Promise<{
  readonly cluster: TestCluster;
  readonly pod: (name: string, nodeName?: string) => Promise<Pod>;
  readonly data: (pod: Pod, kernelId?: string, trap?: CompiledTrap) => Promise<KiveData>;
}> {
  const cluster = await TestCluster.start();
  const policy = compilePolicy(await cluster.createPolicy('p', trap));
  await cluster.createNode('n1', 'kernel-1');
  await cluster.createNode('n2', 'kernel-1');
  await cluster.createNode('n3');
  const pod = async (name: string, nodeName = 'n1'): Promise<Pod> => {
    await cluster.client.create(pods, {
      metadata: { name, namespace: 'default' },
      spec: { nodeName, containers: [{ name: 'main', image: 'none' }] },
    });
    return await cluster.setPodStatus(name, { phase: 'Running' });
  };
  const data = async (of: Pod, kernelId = 'kernel-1', compiled = policy.traps[0]): Promise<KiveData> => {
    assert.ok(compiled);
    const container = { id: `containerd://${of.metadata.name}`, name: 'main', pod: of };
    const identity = { inode: 1n, device: 2, generation: 3 };
    const on = { kernelId, nodeName: of.spec?.nodeName ?? '' };
    const found = { trap: compiled, container, identity, name: nameFor(compiled, container, on.nodeName) };
    return await cluster.client.create(kiveDataType, kiveDataOf(found, on));
  };
  return { cluster, pod, data };
}

/** The pods with KiveData, without those that are being deleted. */
async function podsLeft(cluster: TestCluster): Promise<string[]> {
  const all = await cluster.data();
  const left = all.filter(({ metadata }) => !metadata.deletionTimestamp);
  return left.map(({ metadata }) => metadata.annotations?.['pod-name'] ?? '').sort();
}

suite('the pod controller', () => {
  test('KiveData of pods that are gone, failed, completed or replaced are deleted, the others stay', async () => {
    const { cluster, pod, data } = await start();
    await using _ = cluster;
    for (const name of ['stays', 'gone', 'failed', 'completed', 'replaced']) await data(await pod(name));
    cluster.startOperator(quick);
    await until('the lease', () =>
      cluster.client.get(leases, { namespace: systemNamespace, name: operatorLease }),
    );
    await cluster.setPodStatus('failed', { phase: 'Failed' });
    await cluster.setPodStatus('completed', { phase: 'Succeeded' });
    const now = { gracePeriodSeconds: 0 };
    await cluster.client.delete(pods, { namespace: 'default', name: 'gone' }, now);
    await cluster.client.delete(pods, { namespace: 'default', name: 'replaced' }, now);
    await until('the pod is gone', () =>
      cluster.client.get(pods, { namespace: 'default', name: 'replaced' }).then(
        () => false,
        (error: unknown) => isNotFound(error),
      ),
    );
    await pod('replaced');
    const left = await until(
      'one to be left',
      async () => (await cluster.data()).length === 1 && podsLeft(cluster),
    );
    assert.deepEqual(left, ['stays']);
  });

  test('of two nodes on one kernel, a leaving node removes only its own; an ended kernel removes all', async () => {
    const { cluster, pod, data } = await start();
    await using _ = cluster;
    await data(await pod('a', 'n1'));
    await data(await pod('b', 'n2'));
    // This node does not say which kernel it has.
    await data(await pod('c', 'n3'), 'kernel-9');
    cluster.startOperator(quick);
    await cluster.client.delete(nodes, { name: 'n2' });
    await until('that of n2 to be gone', async () => (await podsLeft(cluster)).join() === 'a,c');
    await until('also its finalizer', async () => (await cluster.data()).length === 2);
    await cluster.client.patch(
      nodes,
      { name: 'n1', subresource: 'status' },
      { type: 'merge', body: { status: { nodeInfo: { bootID: 'kernel-2' } } } },
    );
    await until('that of n1 to be gone', async () => (await cluster.data()).length === 1);
    assert.deepEqual(await podsLeft(cluster), ['c']);
  });

  test('deletes KiveData whose policy may no longer match their namespace, also without the agent', async () => {
    const { cluster, pod, data } = await start();
    await using _ = cluster;
    await cluster.createNamespace('tenant');
    const policy = movedTo('tenant', policyOf('p', trap));
    const { status: _status, ...rest } = await cluster.client.create(kivePolicyType, policy);
    const [compiled] = compilePolicy(rest).traps;
    assert.ok(compiled);
    await data(await pod('stays'));
    await data(await pod('foreign'), 'kernel-1', compiled);
    const stop = cluster.startOperator({ ...quick, policyScope: new PolicyScope(['tenant']) });
    const { metadata } = await until('the operator', async () => {
      const one = await cluster.client.get(kivePolicyType, { namespace: 'tenant', name: 'p' });
      return one.status?.scope === 'Cluster' && one;
    });
    assert.ok(metadata.finalizers);
    await stop();
    assert.deepEqual(await podsLeft(cluster), ['foreign', 'stays']);
    cluster.startOperator(quick);
    await until('one to be left', async () => (await cluster.data()).length === 1);
    assert.deepEqual(await podsLeft(cluster), ['stays']);
  });

  test('deletion of a policy waits for its KiveData, also if no agent is left to delete them', async () => {
    const { cluster, pod, data } = await start();
    await using _ = cluster;
    await data(await pod('a'));
    cluster.startOperator({ ...quick, graceMs: 1000 });
    await until(
      'the finalizer',
      async () => (await cluster.getPolicy('p'))?.metadata.finalizers?.length === 1,
    );
    await cluster.deletePolicy('p');
    assert.ok((await cluster.getPolicy('p'))?.metadata.deletionTimestamp);
    await until('the policy is gone', async () => (await cluster.getPolicy('p')) === undefined);
    assert.deepEqual(await cluster.data(), []);
  });

  test('without Node objects, says nothing about nodes', async () => {
    const { cluster, pod, data } = await start();
    await using _ = cluster;
    await data(await pod('a'));
    for (const name of ['n1', 'n2', 'n3']) await cluster.client.delete(nodes, { name });
    cluster.startOperator(quick);
    await until(
      'the finalizer',
      async () => (await cluster.getPolicy('p'))?.metadata.finalizers?.length === 1,
    );
    await delay(3 * quick.graceMs);
    assert.deepEqual(await podsLeft(cluster), ['a']);
  });
});

suite('the status of a policy', () => {
  test('merges the reports of nodes, leaves out deleted nodes, and reports refused traps', async () => {
    const { cluster } = await start();
    await using _ = cluster;
    const { client } = cluster;
    cluster.startOperator(quick);
    const { uid = '' } = (await cluster.getPolicy('p'))?.metadata ?? {};
    const say = (name: string, part: object): Promise<unknown> => {
      const body = nodeStatusOf([{ ...partOfPolicy, uid, ...part } as PolicyPart]);
      const object = { metadata: { namespace: kiveDataNamespace, name }, ...body };
      return client.apply(kiveNodeStatusType, object, { fieldManager: 'node', force: true });
    };
    await until('no match', async () => {
      const policy = await cluster.getPolicy('p');
      return policy?.status?.conditions?.[0]?.reason === 'NoMatch';
    });
    await say('n1', {
      matchedContainers: 2,
      watchedFiles: 2,
      problemCount: 0,
      lastAlertTime: '2026-11-21T10:00:00Z',
    });
    await say('n2', {
      matchedContainers: 1,
      watchedFiles: 0,
      problemCount: 1,
      problems: [{ trap: 0, path: '/secret.txt', container: 'default/a/main', message: 'it is a FIFO' }],
    });
    const both = await until('both', async () => {
      const policy = await cluster.getPolicy('p');
      return policy?.status?.matchedContainers === 3 && policy;
    });
    assert.equal(both.status?.watchedFiles, 2);
    assert.equal(both.status?.lastAlertTime, '2026-11-21T10:00:00Z');
    assert.equal(
      both.status?.conditions?.[0]?.message,
      '2 files in 3 containers are watched, 1 is not. /secret.txt in default/a/main: it is a FIFO.',
    );
    await client.delete(nodes, { name: 'n2' });
    const one = await until('one', async () => {
      const policy = await cluster.getPolicy('p');
      return policy?.status?.conditions?.[0]?.status === 'True' && policy;
    });
    assert.equal(one.status?.matchedNodes, 1);
    await until('what it said is gone', async () => (await cluster.nodeStatuses()).length === 1);
    assert.equal(one.status?.matchedContainers, 2);

    // The schema cannot see that two traps are the same.
    await cluster.setTraps('p', trap, trap);
    const refused = await until('refused', async () => {
      const policy = await cluster.getPolicy('p');
      return policy?.status?.conditions?.[0]?.reason === 'TrapsRefused' && policy;
    });
    assert.match(refused.status?.conditions?.[0]?.message ?? '', /spec\.traps\[1\].*The other 1 works\./);
    await until('an event', async () =>
      (await cluster.events()).some(({ reason }) => reason === 'TrapRefused'),
    );
  });
});

test('the operator creates the namespace of KiveData, also after it was deleted', async () => {
  await using cluster = await TestCluster.start({ namespace: false });
  cluster.startOperator();
  const get = () => cluster.client.get(namespaces, { name: kiveDataNamespace });
  const { metadata } = await until('it', get);
  await cluster.client.delete(namespaces, { name: kiveDataNamespace });
  await until('another one', async () => (await get()).metadata.uid !== metadata.uid);
});
