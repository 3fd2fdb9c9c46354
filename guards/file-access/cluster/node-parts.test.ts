// Nodes' reports on policies, from the agents' objects to the status of the policies, and their cost. Without
// a kernel.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { nodes } from '../../../lib/kube/object/object.ts';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import type { FileAccessKernel } from '../node/node-options.ts';
import { kiveDataNamespace, kiveNodeStatusType, kivePolicyType, type KivePolicy } from '../api.ts';
import { TestCluster, type TestNode } from '../node/node.fixture.ts';

const quick = { graceMs: 300, releaseMs: 300 };
const everywhere = [{ containerName: '.*' }];
const trap = { path: '/secret.txt', matchAny: everywhere };
const names = ['n1', 'n2', 'n3'];
const policyNames = ['p0', 'p1'];

/** Each path of each container is a file that is there. */
function givenKernel(): FileAccessKernel {
  let inode = 0n;
  return {
    openSensor: () =>
      ({
        applyChanges: () => undefined,
        attach: () => undefined,
        detach: () => undefined,
        directoryFiles: 0,
        filtered: 0,
        identify: () => ({ inode: ++inode, device: 1, generation: 0 }),
        mode: 'fentry',
        moved: 0,
        size: 0,
        refused: new Map(),
        stats: () => ({}),
        [Symbol.dispose]: () => undefined,
      }) as never,
    openFiles: () =>
      ({
        follow: (_source: unknown, traps: readonly object[]) =>
          new Map(
            traps.map((one) => [
              one,
              { state: { kind: 'watched', identity: { inode: ++inode, device: 1, generation: 0 } } },
            ]),
          ),
        forget: () => undefined,
        [Symbol.dispose]: () => undefined,
      }) as never,
  };
}

class Scene implements AsyncDisposable {
  readonly cluster: TestCluster;

  constructor(cluster: TestCluster) {
    this.cluster = cluster;
  }

  static async start(): Promise<Scene> {
    const cluster = await TestCluster.start();
    for (const name of names) await cluster.createNode(name);
    return new Scene(cluster);
  }

  startNode(name: string, containers?: TestNode['containers']): Promise<TestNode> {
    // Two of them are on one kernel.
    const kernelId = name === 'n3' ? 'kernel-3' : 'kernel-1';
    return this.cluster.startNode(name, {
      kernelId,
      kernel: givenKernel(),
      ...(containers && { containers }),
    });
  }

  /** With a pod. */
  async guardedNode(name: string): Promise<TestNode> {
    const node = await this.startNode(name);
    await this.cluster.createPod(node, { name: `pod-${name}` });
    return node;
  }

  ready(policy: string, reason: string, more: (policy: KivePolicy) => boolean = () => true) {
    return until(`${policy} is ${reason}`, async () => {
      const found = await this.cluster.getPolicy(policy);
      const condition = found?.status?.conditions?.[0];
      const isCurrent = condition?.observedGeneration === found?.metadata.generation;
      return found !== undefined && condition?.reason === reason && isCurrent && more(found) && found;
    });
  }

  /** Waits until all policies are on `count` nodes. */
  async settled(count: number): Promise<void> {
    for (const policy of policyNames)
      await this.ready(policy, 'Watching', ({ status }) => status?.matchedNodes === count);
  }

  status(name: string) {
    return this.cluster.client.get(kiveNodeStatusType, { namespace: kiveDataNamespace, name });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.cluster[Symbol.asyncDispose]();
  }
}

/** Follows the policies as an agent does: each reported change. */
function followPolicies(cluster: TestCluster, resourceVersion: string) {
  const stop = new AbortController();
  const seen: KivePolicy[] = [];
  const following = (async () => {
    const options = { resourceVersion, signal: stop.signal };
    for await (const { type, object } of cluster.client.watch(kivePolicyType, {}, options)) {
      if (type === 'MODIFIED') seen.push(object);
    }
  })().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  return {
    seen,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await following;
    },
  };
}

suite('nodes report the state of policies', () => {
  test('three nodes, two policies: one write for each node; agents see only what the operator writes', async () => {
    await using scene = await Scene.start();
    const { cluster } = scene;
    cluster.startOperator(quick);
    for (const policy of policyNames) await cluster.createPolicy(policy, trap);
    const agents = [];
    for (const name of names) agents.push(await scene.guardedNode(name));
    await scene.settled(3);
    const [ofFirst] = await cluster.nodeStatuses();
    assert.deepEqual(
      [ofFirst?.metadata.name, ofFirst?.policyCount, ofFirst?.watchedFiles, ofFirst?.problemCount],
      ['n1', 2, 2, 0],
    );
    const { uid } = (await cluster.client.get(nodes, { name: 'n1' })).metadata;
    assert.deepEqual(
      ofFirst?.metadata.ownerReferences?.map((owner) => [owner.kind, owner.name, owner.uid]),
      [['Node', 'n1', uid]],
    );

    const { metadata } = await cluster.client.list(kivePolicyType);
    const versions = async () =>
      (await cluster.nodeStatuses()).map((status) => status.metadata.resourceVersion);
    const before = await versions();
    await using following = followPolicies(cluster, metadata.resourceVersion ?? '');
    await cluster.setTraps('p0', { ...trap, path: '/other.txt' });
    await scene.ready('p0', 'Watching');
    assert.deepEqual(
      await cluster.nodeStatuses().then((all) => all.map(({ policies }) => policies[0]?.observedGeneration)),
      [2, 2, 2],
    );
    assert.ok((await versions()).every((version, at) => version !== before[at]));
    const reported = following.seen.map(({ status, metadata: { name, generation } }) => [
      name,
      generation,
      status?.conditions?.[0]?.reason,
    ]);
    // The edit itself, and what the operator writes: one at once, if it has written nothing for a while, and one for all nodes.
    assert.deepEqual(reported[0], ['p0', 2, 'Watching']);
    assert.deepEqual(reported.at(-1), ['p0', 2, 'Watching']);
    assert.ok(reported.length >= 2 && reported.length <= 4, JSON.stringify(reported));

    const [first] = agents;
    assert.ok(first);
    await first.stop();
    const stopped = (await scene.status('n1')).metadata.generation ?? 0;
    await cluster.setTraps('p1', { ...trap, path: '/other.txt' });
    const behind = await scene.ready('p1', 'NodesBehind', (now) =>
      /^1 node .*: n1\.$/.test(now.status?.conditions?.[0]?.message ?? ''),
    );
    assert.equal(behind.status?.conditions?.[0]?.status, 'Unknown');
    // One that is started again writes once, as one policy is another one.
    await scene.startNode('n1', first.containers);
    await scene.ready('p1', 'Watching');
    assert.equal((await scene.status('n1')).metadata.generation, stopped + 1);
    await cluster.createPolicy('later', trap);
    await scene.ready('later', 'Watching', (later) => later.status?.matchedNodes === 3);
    await cluster.deletePolicy('later');
    await until('it drops out', async () =>
      (await cluster.nodeStatuses()).every((one) => one.policyCount === 2),
    );
  });

  deepTest('a policy that takes the name of another: what was said of that does not count', async () => {
    await using scene = await Scene.start();
    const { cluster } = scene;
    await cluster.createPolicy('p', trap);
    const node = await scene.guardedNode('n1');
    await until('its word', async () => (await cluster.parts('p')).length === 1);
    await node.stop();
    await cluster.deletePolicy('p');
    const { metadata } = await cluster.createPolicy('p', trap);
    cluster.startOperator(quick);
    await scene.ready('p', 'NoMatch');
    await scene.startNode('n1', node.containers);
    await scene.ready('p', 'Watching');
    assert.deepEqual(
      (await cluster.parts('p')).map(({ uid }) => uid),
      [metadata.uid],
    );
  });

  test('a node that is gone does not count and its object is deleted; a node with nothing to report has no object', async () => {
    await using scene = await Scene.start();
    const { cluster } = scene;
    await cluster.createPolicy('p', trap);
    cluster.startOperator(quick);
    const node = await scene.guardedNode('n1');
    const gone = await scene.guardedNode('n2');
    await scene.startNode('n3');
    await scene.ready('p', 'Watching', ({ status }) => status?.matchedNodes === 2);
    assert.deepEqual(
      (await cluster.nodeStatuses()).map(({ metadata }) => metadata.name),
      ['n1', 'n2'],
    );
    await gone.stop();
    await cluster.client.delete(nodes, { name: 'n2' });
    await scene.ready('p', 'Watching', ({ status }) => status?.matchedNodes === 1);
    await until('its object is gone', async () => (await cluster.nodeStatuses()).length === 1);
    for (const { id } of [...node.containers.list()]) node.containers.delete(id);
    await until('no object', async () => (await cluster.nodeStatuses()).length === 0);
    await scene.ready('p', 'NoMatch');
  });
});
