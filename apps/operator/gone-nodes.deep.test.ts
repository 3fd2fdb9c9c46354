// A Node is deleted, and its agent is gone with it: nothing that Rampart made for it stays.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';

import { kernelLeaseLabel } from '../../guard/agent-lease-names.ts';
import { systemNamespace } from '../../guard/guard.ts';
import { runClusterGuards } from '../../guard/part.fixture.ts';
import { policyReportType } from '../../guard/reports/policy-reports.ts';
import { nodeTypes } from '../../guards/bpf-programs/api.ts';
import { labels as bpfLabels, nodeFinalizer } from '../../guards/bpf-programs/engine/names.ts';
import { parentKind } from '../../guards/bpf-programs/parent-kind.fixture.ts';
import {
  kiveDataNamespace,
  kiveDataType,
  kiveNodeStatusType,
  kivePolicyType,
} from '../../guards/file-access/api.ts';
import { kiveDataOf } from '../../guards/file-access/kive-data.ts';
import { compilePolicy } from '../../guards/file-access/policy/matching.ts';
import { policyOf, trapOn } from '../../guards/file-access/policy/policy.fixture.ts';
import { released } from '../../guards/file-integrity/api.ts';
import { changedFile, failed } from '../../guards/file-integrity/cluster/cluster.fixture.ts';
import { noDetection } from '../../guards/file-integrity/model/finding.ts';
import { resultConfigMap } from '../../guards/file-integrity/results/result-config-map.ts';
import type { KubeClient } from '../../lib/kube/client/client.ts';
import { withController } from '../../lib/kube/object/owner-references.ts';
import {
  configMaps,
  type KubeObject,
  leases,
  namespaces,
  nodes,
  pods,
  type ResourceType,
} from '../../lib/kube/object/object.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { Cluster, deploy } from '../agent/deploy.fixture.ts';
import { guards } from '../guards.ts';

/** In the order of their creation; names of nodes are found in any of their fields. */
const kinds: readonly ResourceType[] = [
  ...[leases, configMaps, policyReportType, released.nodeStatuses, released.integrities],
  ...[kiveDataType, kiveNodeStatusType, kivePolicyType, nodeTypes.Cluster, nodeTypes.Namespaced],
];
const system = systemNamespace;
const policy = policyOf('p', trapOn('/secret'));

class Scene {
  readonly client: KubeClient;

  constructor(client: KubeClient) {
    this.client = client;
  }

  async create<T extends KubeObject>(type: ResourceType<T>, object: object): Promise<T> {
    return await this.client.create(type, object as T);
  }

  /** Creates objects that belong to no node. */
  async prepare(): Promise<void> {
    await this.create(namespaces, { metadata: { name: kiveDataNamespace } }).catch(() => undefined);
    await this.create(kivePolicyType, policy);
    await this.create(released.integrities, {
      metadata: { name: 'fi', namespace: system },
      spec: { config: {} },
    });
    const spec = {
      bytecode: { path: '/count.o' },
      bpffunctionname: 'count',
      nodeselector: {},
      interfaceselector: { primarynodeinterface: true },
      priority: 55,
    };
    await this.create(parentKind('XdpProgram').type, { metadata: { name: 'count' }, spec });
  }

  /** Creates the agent's and the operator's objects for a node. */
  async addNode(name: string): Promise<void> {
    const { client } = this;
    const kernelId = `kernel-of-${name}`;
    await this.create(nodes, { metadata: { name } });
    const holderIdentity = `${name}_1`;
    const spec = { holderIdentity, leaseDurationSeconds: 30, renewTime: '2026-01-01T00:00:00.000000Z' };
    const labels = { 'rampart.dev/agent': name, [kernelLeaseLabel]: kernelId };
    const annotations = { 'rampart.dev/node': name };
    const lease = { namespace: system, name: `rampart-agent-${name}`, labels, annotations };
    await this.create(leases, { metadata: lease, spec });
    const ofKernel = { namespace: system, name: kernelId, labels: { [kernelLeaseLabel]: kernelId } };
    await this.create(leases, { metadata: ofKernel, spec });

    const [trap] = compilePolicy(policy).traps;
    assert.ok(trap);
    const podSpec = { nodeName: name, containers: [{ name: 'c', image: 'none' }] };
    const pod = await this.create(pods, {
      metadata: { name: 'web', namespace: `of-${name}` },
      spec: podSpec,
    });
    const container = { id: 'containerd://1', name: 'c', pod };
    const identity = { inode: 1n, device: 3, generation: 1 };
    const found = { trap, container, identity, name: `data-${name}` };
    await this.create(kiveDataType, kiveDataOf(found, { kernelId, nodeName: name }));
    const place = { namespace: kiveDataNamespace, name: 'p' };
    const { uid = '' } = (await client.get(kivePolicyType, place)).metadata;
    const problem = { trap: 0, path: '/secret', container: `of-${name}/web/c`, message: 'not there' };
    const part = { matchedContainers: 1, watchedFiles: 1, problemCount: 1, problems: [problem] };
    // Without an owner, and without garbage collection.
    await this.create(kiveNodeStatusType, {
      metadata: { name, namespace: kiveDataNamespace },
      ...{ policyCount: 1, matchedContainers: 1, watchedFiles: 1, problemCount: 1 },
      ...{ omittedProblems: 0, omittedPolicies: 0 },
      policies: [{ ...place, uid, ...part }],
    });

    const xdp = parentKind('XdpProgram');
    const parent = await client.get(xdp.type, { name: 'count' });
    const programs = { [bpfLabels.hostname]: name, [bpfLabels.ownedByProgram]: 'count' };
    const finalizers = [nodeFinalizer('xdpprogram')];
    const object = {
      metadata: { name: `count-${name}`, labels: programs, finalizers },
      spec: { type: 'xdp' },
    };
    await this.create(nodeTypes.Cluster, withController(object as never, xdp.type, parent));
    // Deleted by its user while its agent was away, with its owner gone.
    const orphan = {
      metadata: {
        name: `orphan-${name}`,
        namespace: system,
        labels: programs,
        finalizers: [nodeFinalizer('xdpnsprogram')],
      },
      spec: { type: 'xdp' },
    };
    await this.create(nodeTypes.Namespaced, orphan);
    await client.delete(nodeTypes.Namespaced, { namespace: system, name: `orphan-${name}` });

    const result = resultConfigMap({
      ...{ fileIntegrity: { namespace: system, name: 'fi' }, nodeName: name, sequence: 1, atMs: Date.now() },
      ...{ outcome: failed(0, 1, 0), findings: [changedFile], omittedFindings: 0, doneRequests: [] },
      detection: { ...noDetection, reason: '' },
    });
    await client.apply(configMaps, result, { fieldManager: 'agent', force: true });
  }

  /** `Kind name` of all that names the node. */
  async naming(node: string): Promise<string[]> {
    const found: string[] = [];
    for (const type of kinds) {
      const { items } = await this.client.list(type);
      for (const { managedFields: _writers, ...metadata } of items.map((one) => one.metadata)) {
        const rest = items.find((one) => one.metadata.name === metadata.name);
        if (new RegExp(`\\b${node}\\b`).test(JSON.stringify({ ...rest, metadata })))
          found.push(`${type.kind} ${metadata.name}`);
      }
    }
    return found.toSorted();
  }
}

test('a Node that is deleted: nothing of it is left within a minute, though its agent was killed', async () => {
  await using cluster = await Cluster.start();
  await cluster.install();
  await cluster.install(join(deploy, 'policy-reports'));
  const scene = new Scene(cluster.client());
  await scene.prepare();
  for (const name of ['n1', 'n2']) {
    await scene.create(namespaces, { metadata: { name: `of-${name}` } });
    await scene.addNode(name);
  }
  const stop = new AbortController();
  const running = runClusterGuards(guards, {
    client: cluster.client('rampart-operator'),
    signal: stop.signal,
    logger: createLogger({ level: 'silent' }),
  });
  try {
    const before = await until('results to be taken, and all kinds to be there', async () => {
      const names = await scene.naming('n2');
      const found = new Set(names.map((name) => name.split(' ')[0]));
      return found.size === kinds.length && !names.includes('ConfigMap aide-fi-n2') && names;
    });
    await cluster.client().delete(nodes, { name: 'n1' });
    await until('nothing of n1 to be left', async () => (await scene.naming('n1')).length === 0, 60_000);
    assert.deepEqual(await scene.naming('n2'), before);
    assert.deepEqual(
      cluster.refused.filter((right) => right.startsWith('rampart-operator')),
      [],
    );
  } finally {
    stop.abort();
    await running;
  }
});
