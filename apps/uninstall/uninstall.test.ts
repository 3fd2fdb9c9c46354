// A cluster with deploy/ in it, after the operator has worked there.
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { join } from 'node:path';
import { Cluster, deploy } from '../agent/deploy.fixture.ts';
import { overlay } from '../agent/overlay.fixture.ts';
import { RampartProcess } from '../apiserver/rampart-process.fixture.ts';
import { systemNamespace } from '../../guard/guard.ts';
import { kiveDataNamespace, kiveDataType, kivePolicyType } from '../../guards/file-access/api.ts';
import { dataNamespaceLabels } from '../../guards/file-access/cluster/data-namespace.ts';
import { kiveDataFinalizer, kivePolicyFinalizer } from '../../guards/file-access/kive-data.ts';
import { fileAccess } from '../../guards/file-access/guard.ts';
import { networkPolicy } from '../../guards/network-policy/guard.ts';
import { policyServerType } from '../../guards/policy-audit/api.ts';
import { policyAudit } from '../../guards/policy-audit/guard.ts';
import { validatingType } from '../../guards/policy-audit/cluster/webhooks.ts';
import type { KubeClient } from '../../lib/kube/client/client.ts';
import { customResourceDefinitions } from '../../lib/kube/crd/established.ts';
import { daemonSets, type KubeObject, namespaces, type ResourceType } from '../../lib/kube/object/object.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { clusterRoleBindings, uninstall, type Uninstalled, type UninstallParts } from './uninstall.ts';
import { deepTest } from '../../lib/testing/depth.fixture.ts';

const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'rampart-agent' };
/** Enough for each step, and few definitions. */
const guards = [fileAccess, networkPolicy, policyAudit];
const agent = { namespace: systemNamespace, name: 'rampart-agent' };
const policy = { namespace: 'default', name: 'shadow' };
const isGuarded = {
  conditions: [
    {
      type: 'Ready',
      status: 'True',
      reason: 'Guarded',
      message: '',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    },
  ],
};

async function fill(cluster: Cluster): Promise<void> {
  await cluster.install();
  const client = cluster.client();
  await client.create(kivePolicyType, {
    metadata: { ...policy, finalizers: [kivePolicyFinalizer] },
    spec: { traps: [{ path: '/etc/shadow', matchAny: [{ pod: 'web' }] }] },
  } as KubeObject as never);
  await client.patch(
    kivePolicyType,
    { ...policy, subresource: 'status' },
    { type: 'merge', body: { status: isGuarded } },
  );
  await client.create(namespaces, { metadata: { name: kiveDataNamespace, labels: dataNamespaceLabels } });
  await client.create(kiveDataType, {
    metadata: { namespace: kiveDataNamespace, name: 'data', finalizers: [kiveDataFinalizer] },
    spec: { inodeNo: 1, devId: 1, kernelId: 'x', metadata: {} },
  } as KubeObject as never);
  await client.create(policyServerType, {
    metadata: { name: 'default', finalizers: ['kubewarden.io/finalizer'] },
    spec: { image: 'x', replicas: 1 },
  } as KubeObject as never);
  for (const [name, managedBy] of [
    ['clusterwide-carts', 'rampart'],
    ['of-others', 'others'],
  ] as const) {
    const labels = { 'kubewarden/policy-server': 'default', 'app.kubernetes.io/managed-by': managedBy };
    await client.create(validatingType, { metadata: { name, labels } });
  }
}

/** As the controller of DaemonSets does, for two nodes. */
async function clean(client: KubeClient, ready = 2): Promise<void> {
  await until('the DaemonSet cleans', async () => {
    const { metadata, spec } = await client.get(daemonSets, agent);
    return spec?.template.spec?.initContainers !== undefined && metadata.generation;
  });
  const { generation } = (await client.get(daemonSets, agent)).metadata;
  const counts = { currentNumberScheduled: 2, desiredNumberScheduled: 2, numberMisscheduled: 0 };
  const status = { ...counts, observedGeneration: generation, updatedNumberScheduled: 2, numberReady: ready };
  await client.patch(daemonSets, { ...agent, subresource: 'status' }, { type: 'merge', body: { status } });
}

function run(client: KubeClient, options: Partial<UninstallParts> = {}): Promise<Uninstalled> {
  return uninstall({
    ...{ client, guards, keepObjects: false, confirm: async () => undefined, say: () => undefined },
    signal: AbortSignal.timeout(120_000),
    ...options,
  });
}

async function names(client: KubeClient, type: ResourceType): Promise<string[]> {
  return (await client.list(type)).items.map(({ metadata }) => metadata.name ?? '');
}

suite('rampart uninstall, of one cluster', () => {
  let cluster: Cluster;
  let client: KubeClient;
  /** With the rights of deploy/uninstall/. */
  let own: KubeClient;
  before(async () => {
    using mine = overlay(guards);
    cluster = await Cluster.start(mine.path);
    client = cluster.client();
    own = cluster.clientOf('rampart-uninstall', join(deploy, 'uninstall'));
    await fill(cluster);
  });
  after(() => cluster[Symbol.asyncDispose]());

  test('asks before it deletes objects of users, and changes nothing before', async () => {
    let asked: unknown;
    const confirm = async (counts: ReadonlyMap<string, number>): Promise<void> => {
      asked = Object.fromEntries(counts);
      throw new Error('no');
    };
    await assert.rejects(run(own, { confirm }), /^Error: no$/);
    assert.deepEqual(asked, {
      'kivepolicies.kivebpf.san7o.github.io': 1,
      'policyservers.policies.kubewarden.io': 1,
    });
    await client.get(validatingType, { name: 'clusterwide-carts' });
  });

  test('a node that cannot be cleaned is named, and keeps the DaemonSet that cleans it', async () => {
    const ofAgents = await client.get(daemonSets, agent);
    const confirm = (): never => assert.fail('nothing of users is deleted');
    const options = { keepObjects: true, confirm, stalledMs: 1000 };
    const [{ removed, left }] = await Promise.all([run(own, options), clean(client, 1)]);
    assert.equal(removed[0], 'ValidatingWebhookConfiguration clusterwide-carts');
    assert.ok(removed.includes('finalizer of KivePolicy default/shadow'), removed.join('\n'));
    assert.deepEqual(left, ['nodes without a pod of DaemonSet rampart-agent, which are not cleaned: 1']);

    const [was] = ofAgents.spec?.template.spec?.containers ?? [];
    const { template } = (await client.get(daemonSets, agent)).spec ?? {};
    const { initContainers, containers = [], hostNetwork, volumes = [] } = template?.spec ?? {};
    const [cleaner] = initContainers ?? [];
    assert.deepEqual(cleaner?.args, ['uninstall', 'node', ...(was?.args?.slice(1) ?? [])]);
    assert.deepEqual(cleaner?.securityContext, was?.securityContext);
    assert.equal(hostNetwork, true);
    const pathsOf = (name: string): unknown => [
      cleaner?.volumeMounts?.find((one) => one.name === name)?.mountPath,
      volumes.find((one) => one.name === name)?.hostPath?.path,
    ];
    assert.deepEqual(pathsOf('spool'), ['/var/lib', '/var/lib']);
    assert.deepEqual(pathsOf('socket'), ['/run', '/run']);
    assert.deepEqual(pathsOf('runtime'), ['/run/containerd', '/run/containerd']);
    assert.deepEqual(containers[0]?.securityContext?.capabilities, { drop: ['ALL'] });
  });

  deepTest('stopped while it waits for nodes, it says so and that it can be run again', async () => {
    const kubeconfig = cluster.server.kubeconfig ?? '';
    await using running = new RampartProcess(['uninstall', '--keep-objects', '--kubeconfig', kubeconfig]);
    await until('it cleans the nodes', () => running.stderr.includes('nodes cleaned: '));
    const { code, stdout } = await running.stop();
    assert.equal(code, 1);
    assert.match(stdout, /^left: all that comes later: stopped before the end; run it again$/m);
    assert.doesNotMatch(running.stderr, /bug/);
  });

  test('--keep-objects keeps what users wrote, without finalizers and webhooks', async () => {
    const [{ left, areNodesClean }] = await Promise.all([run(own, { keepObjects: true }), clean(client)]);
    assert.deepEqual({ left, areNodesClean }, { left: [], areNodesClean: true });
    const kept = await client.get(kivePolicyType, policy);
    assert.equal(kept.metadata.finalizers, undefined);
    assert.equal(kept.status, undefined, 'nothing says that it is guarded');
    assert.equal((await client.get(policyServerType, { name: 'default' })).metadata.finalizers, undefined);
    assert.deepEqual(await names(client, validatingType), ['of-others']);
    assert.ok(!(await names(client, namespaces)).includes(systemNamespace));
    assert.ok((await names(client, namespaces)).includes(kiveDataNamespace));
  });

  test('objects held by others are named; without them, nothing is left', async () => {
    const others = 'example.com/holds';
    const hold = { metadata: { finalizers: [kivePolicyFinalizer, others] } };
    await client.patch(kivePolicyType, policy, { type: 'merge', body: hold });
    assert.deepEqual((await run(own, { goneMs: 300 })).left, [
      'CustomResourceDefinition kivepolicies.kivebpf.san7o.github.io',
      `KivePolicy default/shadow, held by ${others}`,
    ]);
    const release = { metadata: { finalizers: null } };
    await client.patch(kivePolicyType, policy, { type: 'merge', body: release });
    assert.deepEqual((await run(own)).left, []);
    assert.deepEqual(await names(client, customResourceDefinitions), []);
    assert.ok(!(await names(client, namespaces)).includes(kiveDataNamespace));
    assert.deepEqual(await names(client, validatingType), ['of-others']);
    assert.deepEqual(await run(own), { removed: [], left: [], areNodesClean: false });
    assert.deepEqual(cluster.refused, []);
  });

  test('without agents, it says each time that nodes are not clean, until the namespace is deleted', async () => {
    await client.create(namespaces, { metadata: { name: systemNamespace } });
    for (let time = 1; time <= 2; time++) {
      const { left } = await run(own);
      assert.match(left.join('\n'), /^nodes are not cleaned, .* then delete the namespace rampart-system$/);
    }
    await client.delete(namespaces, { name: systemNamespace });
    // As `kubectl delete ns` leaves it behind.
    const labels = { 'app.kubernetes.io/part-of': 'rampart' };
    await client.create(clusterRoleBindings, {
      metadata: { name: 'rampart-agent', labels },
      roleRef,
    } as KubeObject);
    const { removed, left } = await run(own);
    assert.deepEqual(removed, ['ClusterRoleBinding rampart-agent']);
    assert.match(left.join('\n'), /^nodes are not cleaned, .* on each of them$/);
  });
});
