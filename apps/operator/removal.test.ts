/** Removal of everything that would block once Rampart is being removed, with the rights of deploy/. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { systemNamespace } from '../../guard/guard.ts';
import { runClusterGuards } from '../../guard/part.fixture.ts';
import { runUntilRemoved } from '../../guard/give-back.ts';
import { agentWorkload, operatorWorkload, removalOf } from '../../guard/removal.ts';
import { kiveDataNamespace, kiveDataType, kivePolicyType } from '../../guards/file-access/api.ts';
import { kiveDataFinalizer } from '../../guards/file-access/kive-data.ts';
import { fileAccess } from '../../guards/file-access/guard.ts';
import { SharedCaches } from '../../lib/kube/cache/shared-caches.ts';
import type { KubeClient } from '../../lib/kube/client/client.ts';
import { customResourceDefinitions } from '../../lib/kube/crd/established.ts';
import {
  configMaps,
  daemonSets,
  deployments,
  type KubeObject,
  namespaces,
  type ResourceType,
} from '../../lib/kube/object/object.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { aborted } from '../../lib/time/abort.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { Cluster } from '../agent/deploy.fixture.ts';
import { overlay } from '../agent/overlay.fixture.ts';

const guards = [fileAccess];
const policy = { namespace: 'default', name: 'shadow' };
const logger = createLogger({ level: 'silent' });

/** A process of the cluster. */
interface Running {
  /** Resolves when it has nothing more to do. */
  readonly stop: () => Promise<void>;
}

suite('a cluster that Rampart is removed from', () => {
  let cluster: Cluster;
  let client: KubeClient;
  before(async () => {
    using mine = overlay(guards);
    cluster = await Cluster.start(mine.path, new Set(['n1']));
    client = cluster.client();
    await cluster.install();
    await client.create(kivePolicyType, {
      metadata: policy,
      spec: { traps: [{ path: '/etc/shadow', matchAny: [{ pod: 'web' }] }] },
    } as KubeObject as never);
  });
  after(() => cluster[Symbol.asyncDispose]());

  function operator(): Running {
    const stop = new AbortController();
    const running = runClusterGuards(guards, {
      ...{ client: cluster.client('rampart-operator'), logger, signal: stop.signal },
      workload: operatorWorkload,
    });
    return { stop: async () => (stop.abort(), await running) };
  }

  /** Without parts that would need this kernel. */
  function agent(nodeName: string): Running & { readonly end: AbortController } {
    const [reported, end] = [new AbortController(), new AbortController()];
    const own = cluster.client('rampart-agent');
    const caches = new SharedCaches({
      client: own,
      logger,
      onFailure: (error) => assert.fail(String(error)),
    });
    const options = {
      client: own,
      logger,
      caches,
      guards,
      nodeName,
      reported: reported.signal,
      workload: agentWorkload,
    };
    const running = runUntilRemoved(end, options, () => aborted(end.signal));
    const stop = async (): Promise<void> => {
      reported.abort();
      await running;
      await caches[Symbol.asyncDispose]();
    };
    return { stop, end };
  }

  async function holdersOf(type: ResourceType): Promise<string[]> {
    const { items } = await client.list(type);
    return items.flatMap(({ metadata: { name = '', finalizers = [] } }) =>
      finalizers.length > 0 ? [name] : [],
    );
  }

  const isHeld = async (): Promise<boolean> => (await holdersOf(kivePolicyType)).length > 0;
  const lookedAtItself = (who: string, right: string): Promise<boolean> =>
    until(`${who} has looked at itself`, async () => cluster.used.get(who)?.has(right) === true);

  test('an operator that restarts or is scaled to 0 keeps what it holds; one whose Deployment is deleted gives it back', async () => {
    let running = operator();
    await until('it holds the policy', isHeld);
    const target = { namespace: systemNamespace, name: 'rampart-operator' };
    await client.patch(deployments, target, { type: 'merge', body: { spec: { replicas: 0 } } });
    await running.stop();
    assert.ok(await isHeld());

    cluster.used.clear();
    running = operator();
    await lookedAtItself('rampart-operator', 'get deployments.apps rampart-operator in rampart-system');
    const { metadata: _, ...same } = await client.get(deployments, target);
    await client.delete(deployments, target);
    await running.stop();
    assert.ok(!(await isHeld()));
    await client.create(deployments, { metadata: target, ...same });
  });

  test('an agent gives back what it holds of its own node when its DaemonSet is deleted, and nothing before', async () => {
    await until('the namespace of KiveData', async () =>
      (await client.list(namespaces)).items.some(({ metadata }) => metadata.name === kiveDataNamespace),
    );
    for (const node of ['n1', 'n2']) {
      await client.create(kiveDataType, {
        metadata: {
          ...{ namespace: kiveDataNamespace, name: `data-${node}`, finalizers: [kiveDataFinalizer] },
          annotations: { 'node-name': node },
        },
        spec: { inodeNo: 1, devId: 1, kernelId: 'x', metadata: {} },
      } as KubeObject as never);
    }
    await agent('n1').stop();
    assert.deepEqual(await holdersOf(kiveDataType), ['data-n1', 'data-n2']);

    cluster.used.clear();
    const running = agent('n1');
    await lookedAtItself('rampart-agent', 'get daemonsets.apps rampart-agent in rampart-system');
    await client.delete(daemonSets, { namespace: systemNamespace, name: 'rampart-agent' });
    await running.stop();
    assert.deepEqual(await holdersOf(kiveDataType), ['data-n2']);
  });

  test('deleting the namespace ends all processes by itself; then definitions can be deleted', async () => {
    const [first, node] = [operator(), agent('n1')];
    await until('it holds the policy', isHeld);
    // Kubernetes takes its time with what is in the namespace.
    const holds = { namespace: systemNamespace, name: 'holds' };
    await client.create(configMaps, { metadata: { ...holds, finalizers: ['test.example/holds'] } });
    await client.delete(namespaces, { name: systemNamespace });
    await until('the policy is released', async () => !(await isHeld()));
    await until(
      'the data of a node without an agent, too',
      async () => (await holdersOf(kiveDataType)).length === 0,
    );
    await aborted(node.end.signal);
    assert.equal(removalOf(node.end.signal)?.message, 'the namespace rampart-system is being deleted');

    // One that is started only now.
    const second = operator();
    const { items } = await client.list(customResourceDefinitions);
    for (const { metadata } of items)
      await client.delete(customResourceDefinitions, { name: metadata.name ?? '' });
    await until(
      'no definition',
      async () => (await client.list(customResourceDefinitions)).items.length === 0,
    );
    await Promise.all([first, second, node].map(({ stop }) => stop()));
    await client.patch(configMaps, holds, { type: 'merge', body: { metadata: { finalizers: null } } });
    assert.deepEqual(cluster.refused, []);
  });
});
