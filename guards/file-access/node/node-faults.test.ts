// Failures of Kive on a node: here each of them has to be handled, with the real sensor and a real API.
import assert from 'node:assert/strict';
import {
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import type { KiveAlert } from '../alert/alert.ts';
import { kiveDataType, kivePolicyType } from '../api.ts';
import { pods } from '../../../lib/kube/object/object.ts';
import { alertOf, readByCat, TestCluster, type TestContainer } from './node.fixture.ts';

const files = { 'secret.txt': 'secret', 'etc/shadow': 'root' };
const everywhere = [{ containerName: '.*' }];

function only(containers: readonly TestContainer[]): TestContainer {
  assert.equal(containers.length, 1);
  return containers[0] as TestContainer;
}

const alphabetically = (a = '', b = ''): number => (a < b ? -1 : 1);

/** Who an alert is about. */
const subject = ({ pod, metadata, 'kive-policy-name': policy }: KiveAlert): string =>
  `${policy} ${pod.name}/${pod.container.name}${metadata.path}`;

suite('faults of Kive', { skip: sensorSkip }, () => {
  test('the address of a pod matches, and only its own', async () => {
    await using cluster = await TestCluster.start();
    const node = await cluster.startNode('n1');
    await cluster.createPod(node, { name: 'a', ip: '10.0.0.1', files });
    await cluster.createPod(node, { name: 'b', ip: '10.0.0.2', files });
    await cluster.createPolicy('by-ip', { path: '/secret.txt', matchAny: [{ ip: '10.0.0.2' }] });
    const [data] = await cluster.dataCount(1);
    assert.equal(data?.metadata.annotations?.['pod-name'], 'b');
    assert.equal(data?.metadata.annotations?.['pod-ip'], '10.0.0.2');
  });

  deepTest('each trap on a file reports its own alert, also two on one file of one container', async () => {
    await using cluster = await TestCluster.start();
    const node = await cluster.startNode('n1');
    const { root } = only(await cluster.createPod(node, { name: 'a', files }));
    const trap = (severity: string) => ({
      path: '/secret.txt',
      matchAny: everywhere,
      metadata: { severity },
    });
    await cluster.createPolicy('one', trap('low'), trap('high'));
    await cluster.createPolicy('two', trap('low'));
    const data = await cluster.dataCount(3);
    assert.equal(new Set(data.map(({ metadata }) => metadata.name)).size, 3);
    await until('all three to be told', () => {
      node.lines.length = 0;
      readByCat(join(root, 'secret.txt'));
      return delay(50).then(() => node.lines.length === 3);
    });
    const reported = node.alerts.map((alert) => `${subject(alert)} ${alert['custom-metadata']['severity']}`);
    assert.deepEqual(reported.sort(), [
      'one a/main/secret.txt high',
      'one a/main/secret.txt low',
      'two a/main/secret.txt low',
    ]);
  });

  deepTest('a file that two containers share stays watched for the one that stays', async () => {
    await using cluster = await TestCluster.start();
    const node = await cluster.startNode('n1');
    const a = only(await cluster.createPod(node, { name: 'a', files }));
    const b = only(await cluster.createPod(node, { name: 'b' }));
    linkSync(join(a.root, 'secret.txt'), join(b.root, 'secret.txt'));
    await cluster.createPolicy('p', { path: '/secret.txt', matchAny: everywhere });
    const [first, second] = await cluster.dataCount(2);
    assert.equal(first?.spec.inodeNo, second?.spec.inodeNo);
    await until('both to be told', () => {
      node.lines.length = 0;
      readByCat(join(a.root, 'secret.txt'));
      return delay(50).then(() => node.lines.length === 2);
    });
    assert.deepEqual(node.alerts.map(({ pod }) => pod.name).sort(), ['a', 'b']);
    node.containers.delete(a.id);
    await cluster.dataCount(1);
    node.lines.length = 0;
    const alert = await alertOf(node, join(a.root, 'secret.txt'), () => true);
    assert.equal(alert.pod.name, 'b');
    assert.ok(node.alerts.every(({ pod }) => pod.name === 'b'));
  });

  deepTest('reports a missing or unreachable file of one container without delaying others', async () => {
    await using cluster = await TestCluster.start();
    cluster.startOperator();
    const node = await cluster.startNode('n1');
    const broken = only(await cluster.createPod(node, { name: 'broken', files }));
    rmSync(broken.root, { recursive: true });
    const missing = only(await cluster.createPod(node, { name: 'missing' }));
    await cluster.createPod(node, { name: 'pending', phase: 'Pending', files });
    await cluster.createPod(node, { name: 'good', files });
    await cluster.createPolicy('p', { path: '/etc/shadow', matchAny: everywhere });
    const names = (await cluster.dataCount(2)).map(({ metadata }) => metadata.annotations?.['pod-name']);
    assert.deepEqual(names.toSorted(alphabetically), ['good', 'pending'], 'a container that runs is enough');
    const policy = await until('the status', async () => {
      const found = await cluster.getPolicy('p');
      return found?.status?.problemCount === 2 && found.status.matchedContainers === 4 && found;
    });
    assert.equal(policy.status?.watchedFiles, 2);
    const ready = policy.status?.conditions?.[0];
    assert.equal(ready?.status, 'False');
    assert.equal(ready?.reason, 'FilesMissing');
    assert.match(ready?.message ?? '', /2 are not.*\/etc\/shadow in default\/(broken|missing)\/main: /);

    mkdirSync(join(missing.root, 'etc'));
    writeFileSync(join(missing.root, 'etc/shadow'), 'late');
    await cluster.dataCount(3);
    assert.equal((await alertOf(node, join(missing.root, 'etc/shadow'), () => true)).pod.name, 'missing');
  });

  deepTest('a pod that is labelled otherwise is watched no more, and again', async () => {
    await using cluster = await TestCluster.start();
    const node = await cluster.startNode('n1');
    const { root } = only(await cluster.createPod(node, { name: 'a', labels: { level: 'high' }, files }));
    await cluster.createPolicy('p', { path: '/secret.txt', matchAny: [{ matchLabels: { level: 'high' } }] });
    await cluster.dataCount(1);
    await alertOf(node, join(root, 'secret.txt'), () => true);
    const label = (level: string) =>
      cluster.client.patch(
        pods,
        { namespace: 'default', name: 'a' },
        { type: 'merge', body: { metadata: { labels: { level } } } },
      );
    const watchedFiles = async () => (await cluster.parts('p')).map((part) => part.watchedFiles);
    await until('what the node says', async () => (await watchedFiles()).join() === '1');
    await label('low');
    await cluster.dataCount(0);
    // There was an alert, so the node still has that to say.
    await until('what the node says', async () => (await watchedFiles()).join() === '0');
    node.lines.length = 0;
    readByCat(join(root, 'secret.txt'));
    await label('high');
    await cluster.dataCount(1);
    assert.deepEqual(node.lines, []);
    await alertOf(node, join(root, 'secret.txt'), () => true);
  });

  deepTest('a static pod is known by the uid of the runtime, an address before the API has it', async () => {
    await using cluster = await TestCluster.start();
    const node = await cluster.startNode('n1');
    const spec = { nodeName: 'n1', containers: [{ name: 'main', image: 'none' }] };
    const metadata = {
      name: 'etcd',
      namespace: 'default',
      annotations: { 'kubernetes.io/config.hash': 'f00d' },
    };
    await cluster.client.create(pods, { metadata, spec });
    await cluster.createPolicy('p', { path: '/secret.txt', matchAny: [{ ip: '10.0.0.7' }] });
    const asRuntime = (uid: string) => ({ metadata: { ...metadata, uid } });
    cluster.startContainer(node, asRuntime('another'), 'main', '10.0.0.7', files);
    const { id } = cluster.startContainer(node, asRuntime('f00d'), 'main', '10.0.0.7', files);
    const [data] = await cluster.dataCount(1);
    assert.equal(data?.metadata.annotations?.['container-id'], id);
    assert.equal(data?.metadata.annotations?.['pod-ip'], '10.0.0.7');
  });

  test('a match without an item is refused', async () => {
    await using cluster = await TestCluster.start();
    await assert.rejects(
      cluster.createPolicy('all', { path: '/secret.txt', matchAny: [{}] }),
      /At least one match block with one match item must be present|should have at least 1 properties/,
    );
    await assert.rejects(cluster.createPolicy('none', { path: '/secret.txt', matchAny: [] }), /matchAny/);
  });

  deepTest(
    'covers containers of every kind, also those that are added later, each under its own name',
    async () => {
      await using cluster = await TestCluster.start();
      const node = await cluster.startNode('n1');
      await cluster.createPolicy('p', {
        path: '/secret.txt',
        matchAny: [{ containerName: '(init|debug).*' }],
      });
      await cluster.createPod(node, { name: 'a', containers: ['init-db', 'main'], files });
      await cluster.dataCount(1);
      const pod = await cluster.client.get(pods, { namespace: 'default', name: 'a' });
      cluster.startContainer(node, pod, 'debugger-x', '10.0.0.9', files);
      const names = (await cluster.dataCount(2)).map(
        ({ metadata }) => metadata.annotations?.['container-name'],
      );
      assert.deepEqual(names.toSorted(alphabetically), ['debugger-x', 'init-db']);
    },
  );

  test('a container that is restarted, a file that is replaced', async () => {
    await using cluster = await TestCluster.start();
    const node = await cluster.startNode('n1');
    const before = only(await cluster.createPod(node, { name: 'a', files }));
    await cluster.createPolicy('p', { path: '/secret.txt', matchAny: everywhere });
    const [old] = await cluster.dataCount(1);
    const pod = await cluster.client.get(pods, { namespace: 'default', name: 'a' });
    node.containers.delete(before.id);
    const now = cluster.startContainer(node, pod, 'main', '10.0.0.9', files);
    const [data] = await until('the new container', async () => {
      const all = await cluster.data();
      return all.length === 1 && all[0]?.metadata.annotations?.['container-id'] === now.id && all;
    });
    assert.notEqual(data?.metadata.name, old?.metadata.name);
    const alert = await alertOf(node, join(now.root, 'secret.txt'), () => true);
    assert.equal(alert.pod.container.id, now.id);

    const file = join(now.root, 'secret.txt');
    writeFileSync(`${file}.new`, 'saved');
    renameSync(`${file}.new`, file);
    const { ino } = statSync(file);
    await until('the new file', async () => (await cluster.data())[0]?.spec.inodeNo === ino);
    node.lines.length = 0;
    assert.equal((await alertOf(node, file, () => true)).metadata.inode, ino);
    await until('an event', async () =>
      (await cluster.events()).some(({ reason }) => reason === 'FileReplaced'),
    );
  });

  deepTest('KiveData are written as soon as their namespace exists', async () => {
    await using cluster = await TestCluster.start({ namespace: false });
    const node = await cluster.startNode('n1');
    const { root } = only(await cluster.createPod(node, { name: 'a', files }));
    await cluster.client.create(kivePolicyType, {
      metadata: { name: 'p', namespace: 'default' },
      spec: { traps: [{ path: '/secret.txt', matchAny: everywhere }] },
    });
    await alertOf(node, join(root, 'secret.txt'), () => true);
    cluster.startOperator();
    await cluster.dataCount(1);
    await until('the status', async () => (await cluster.parts('p', 'default'))[0]?.watchedFiles === 1);
    await alertOf(node, join(root, 'secret.txt'), () => true);
  });

  deepTest('deleted or changed KiveData are restored', async () => {
    await using cluster = await TestCluster.start();
    const node = await cluster.startNode('n1');
    const { root } = only(await cluster.createPod(node, { name: 'a', files }));
    await cluster.createPolicy('p', { path: '/secret.txt', matchAny: everywhere });
    const [data] = await cluster.dataCount(1);
    assert.ok(data);
    await cluster.client.delete(kiveDataType, {
      namespace: 'kivebpf-system',
      name: data.metadata.name ?? '',
    });
    const [again] = await until('another one', async () => {
      const all = await cluster.data();
      return all.length === 1 && all[0]?.metadata.uid !== data.metadata.uid && all;
    });
    assert.equal(again?.metadata.name, data.metadata.name);
    await alertOf(node, join(root, 'secret.txt'), () => true);
  });

  test('a file that a link would lead to where the dynamic linker looks is not created, and the policy says why', async () => {
    await using cluster = await TestCluster.start();
    cluster.startOperator();
    const node = await cluster.startNode('n1');
    const { root } = only(await cluster.createPod(node, { name: 'a', files }));
    symlinkSync('/etc', join(root, 'x'));
    await cluster.createPolicy(
      'p',
      { path: '/x/ld.so.preload', create: true, mode: 666, matchAny: everywhere },
      { path: '/etc/ld.so.preload', create: true, mode: 666, matchAny: everywhere },
    );
    const status = await until('the status', async () => {
      const { status: now } = (await cluster.getPolicy('p')) ?? {};
      return now?.problems !== undefined && now;
    });
    assert.match(
      status.problems?.[0]?.message ?? '',
      /it was not created because \/etc\/ld\.so\.preload is used by the dynamic linker/,
    );
    const ready = status.conditions?.find(({ type }) => type === 'Ready');
    assert.equal(ready?.reason, 'TrapsRefused');
    assert.match(
      ready.message,
      /^spec\.traps\[1\]\.create: .*"\/etc\/ld\.so\.preload" .* dynamic linker.*\. The other 1 works\.$/,
    );
    assert.deepEqual(readdirSync(join(root, 'etc')), ['shadow']);
  });
});
