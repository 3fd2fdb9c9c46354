// From Kive to Rampart on a running cluster, following docs/moving.md, with kubectl. Kive's objects are
// written here by its schemas.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { suite, test } from 'node:test';

import { sampled } from '../../lib/testing/depth.fixture.ts';
import { startTestApi } from '../../lib/apiserver/test-api.fixture.ts';
import { GivenContainers } from '../../lib/cri/containers.fixture.ts';
import { customResourceDefinitions, established } from '../../lib/kube/crd/established.ts';
import type { KubeObject } from '../../lib/kube/object/object.ts';
import { patience, until } from '../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { alertOf, TestCluster } from './node/node.fixture.ts';
import { releasedData, releasedDefinitions } from './policy/released.fixture.ts';
import { samples } from './policy/samples.fixture.ts';

const skip =
  spawnSync('kubectl', ['kustomize', '--help']).status === 0 ? sensorSkip : 'needs kubectl with kustomize';
const deploy = join(import.meta.dirname, '../../deploy');
const names = ['kivedata.kivebpf.san7o.github.io', 'kivepolicies.kivebpf.san7o.github.io'];

class KiveCluster extends TestCluster {
  /** A cluster of Kive's, with its namespace and nothing else of it yet. */
  static async startEmpty(): Promise<KiveCluster> {
    const cluster = new KiveCluster(await startTestApi({ name: 'moving', memory: true }));
    for (const name of ['default', 'kivebpf-system']) await cluster.createNamespace(name);
    return cluster;
  }

  /** Has to succeed. */
  async kubectl(args: readonly string[], ...objects: readonly KubeObject[]): Promise<string> {
    const child = spawn('kubectl', args, {
      env: { PATH: process.env['PATH'], HOME: this.directory, KUBECONFIG: this.kubeconfig },
    });
    child.stdin.on('error', () => undefined);
    child.stdin.end(JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }));
    const closed = once(child, 'close');
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), closed]);
    assert.equal(code, 0, `kubectl ${args.join(' ')}: ${stderr}`);
    return stdout;
  }

  async served(): Promise<void> {
    const signal = patience();
    for (const name of names) await established(this.client, name, { timeoutMs: 30_000, signal });
  }

  async definition(name: string) {
    const { spec, status } = (await this.client.get(customResourceDefinitions, { name })) as KubeObject & {
      readonly spec: { readonly conversion: object };
      readonly status: { readonly storedVersions: readonly string[] };
    };
    return { conversion: spec.conversion, storedVersions: status.storedVersions };
  }

  /** As `kubectl get -o json` shows them in a version. */
  async shown(version: string): Promise<Map<string, KubeObject & { readonly spec: unknown }>> {
    const all = ['kivepolicies', 'kivedata'].map((plural) => `${plural}.${version}.kivebpf.san7o.github.io`);
    const json = await this.kubectl(['get', all.join(), '-n', 'kivebpf-system', '-o', 'json']);
    const { items } = JSON.parse(json) as { items: (KubeObject & { readonly spec: unknown })[] };
    return new Map(items.map((item) => [item.metadata.name ?? '', item]));
  }
}

suite('a cluster with Kive', { skip }, () => {
  test('goes over by applying ours: its objects are there in both versions, guarded, and can be deleted', async () => {
    await using cluster = await KiveCluster.startEmpty();
    const worker = { name: 'kive-worker', containers: new GivenContainers() };
    const [container] = await cluster.createPod(worker, {
      name: 'nginx-pod',
      labels: { 'security-level': 'high' },
      containers: ['nginx'],
      files: { '/etc/passwd': 'root', '/etc/shadow': 'root', '/secret.txt': 'x' },
    });
    assert.ok(container);

    // Kive: all of its samples but the one that its last release would not take, and what its controllers wrote.
    const { v2alpha1_kivepolicy_regex2: older, v2alpha1_kivepolicy: replaced, ...rest } = samples;
    assert.ok(older && replaced);
    const left = [
      ...Object.values(rest),
      releasedData({ kernelId: cluster.kernelId, nodeName: worker.name, containerId: container.id }),
    ];
    await cluster.kubectl(['apply', '-f', '-'], ...releasedDefinitions());
    await cluster.served();
    await cluster.kubectl(['apply', '-f', '-'], replaced);
    await cluster.kubectl(['apply', '-f', '-'], ...left);
    for (const name of names) assert.deepEqual((await cluster.definition(name)).storedVersions, ['v2alpha1']);

    await cluster.kubectl(['apply', '-k', deploy]);
    await cluster.served();
    for (const name of names) {
      assert.deepEqual(await cluster.definition(name), {
        conversion: { strategy: 'None' },
        storedVersions: ['v2alpha1', 'v1'],
      });
    }
    for (const version of ['v1', 'v2alpha1']) {
      const shown = await cluster.shown(version);
      for (const { metadata, spec } of left) {
        const object = shown.get(metadata.name ?? '');
        assert.equal(object?.apiVersion, `kivebpf.san7o.github.io/${version}`);
        assert.deepEqual(object.spec, spec);
        assert.deepEqual(object.metadata.finalizers, metadata.finalizers);
      }
    }

    await cluster.kubectl(['apply', '-f', '-'], older);
    const sent: string[] = [];
    cluster.startOperator({ graceMs: 300, releaseMs: 300 });
    const node = await cluster.startNode(worker.name, {
      containers: worker.containers,
      delivery: { enqueue: (callback) => sent.push(callback) > 0 },
    });
    // The name of the container is another one in `regex2`, and `policy4` has no match.
    const guarded = [
      '/callme.txt',
      '/etc/passwd',
      '/etc/shadow',
      '/regex.txt',
      '/secret.txt',
      '/secretv1.txt',
    ];
    const data = await until('KiveData of ours only', async () => {
      const all = await cluster.data();
      return all.length === guarded.length && all.every(({ spec }) => spec.kernelId !== undefined) && all;
    });
    const paths = data.map(({ metadata }) => metadata.annotations?.['path'] ?? '').sort();
    assert.deepEqual(paths, guarded);
    for (const path of guarded) {
      const file = join(container.root, path);
      const alert = await alertOf(node, file, ({ metadata }) => metadata.path === path);
      assert.equal(alert.pod.container.name, 'nginx');
      const { callback } = alert.metadata;
      assert.equal(callback !== '' && sent.includes(callback), path === '/callme.txt');
      if (!path.startsWith('/etc/') && path !== '/secret.txt')
        assert.equal(statSync(file).mode & 0o7777, 0o444);
    }
    const security = node.alerts.find(({ metadata }) => metadata.path === '/secret.txt');
    assert.deepEqual(security?.['custom-metadata'], { security: 'high' });
    const refused = await until('the policy without a match is told', async () => {
      const policy = await cluster.getPolicy('kive-sample-policy4');
      return policy?.status?.conditions?.find(({ reason }) => reason === 'TrapsRefused');
    });
    assert.match(refused.message, /spec\.traps\[0\]\.matchAny: a trap without a match is invalid/);

    // Whoever still writes v2alpha1.
    await cluster.kubectl(['apply', '-f', '-'], ...left);
    await cluster.kubectl([
      'delete',
      'kivepolicies.v2alpha1.kivebpf.san7o.github.io',
      '--all',
      '-n',
      'kivebpf-system',
    ]);
    await until('all KiveData are gone', async () => (await cluster.data()).length === 0);
  });

  for (const how of sampled(['apply', 'create'], 1)) {
    test(`definitions with its webhook, installed by kubectl ${how}, convert without it`, async () => {
      await using cluster = await KiveCluster.startEmpty();
      await cluster.kubectl([how, '-f', '-'], ...releasedDefinitions('webhook'));
      await cluster.served();
      for (const name of names) {
        const body = { spec: { conversion: { webhook: { clientConfig: { caBundle: 'Q0E=' } } } } };
        await cluster.client.patch(customResourceDefinitions, { name }, { type: 'merge', body });
      }
      const none = JSON.stringify({ spec: { conversion: { strategy: 'None', webhook: null } } });
      for (const name of names) await cluster.kubectl(['patch', `crd/${name}`, '--type=merge', '-p', none]);
      // The rest of deploy/ is not needed.
      await cluster.kubectl(['apply', '-f', join(deploy, 'guards/file-access/crd')]);
      for (const name of names) {
        assert.deepEqual((await cluster.definition(name)).conversion, { strategy: 'None' });
      }
    });
  }
});
