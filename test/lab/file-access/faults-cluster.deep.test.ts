// Faults 5 and 9 of Kive, which need the API of a cluster: an agent, an operator and the API as processes of their own.
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import type { KiveAlert } from '../../../guards/file-access/alert/alert.ts';
import { type KiveData, kiveDataType } from '../../../guards/file-access/api.ts';
import { nodes as nodeType, pods as podType } from '../../../lib/kube/object/object.ts';
import { summary } from '../guarded-lab.fixture.ts';
import { labObstacle } from '../obstacle.ts';
import { LabCluster, type LabNode } from './lab-cluster.fixture.ts';

const path = '/etc/shadow';

suite('faults of Kive in a cluster', { skip: sensorSkip || labObstacle() }, () => {
  let cluster: LabCluster;
  let node: LabNode;
  before(async () => {
    cluster = await LabCluster.start();
    node = await cluster.addNode('n1');
    await node.agent.untilLoader();
  });
  after(async () => await cluster?.[Symbol.asyncDispose]());

  /** The watched files are those of the policy and the marker. */
  async function watched(count: number): Promise<void> {
    await until(
      `${count} watched`,
      async () => (await node.agent.metric('file_access_watched')) === count + 1,
    );
  }

  /** The alerts of an action. */
  async function alertsOf(action: () => Promise<unknown>): Promise<KiveAlert[]> {
    const from = await node.mark();
    await action();
    const to = await node.mark();
    return node.agent.reported.slice(from + 1, to).map(({ alert }) => alert);
  }

  test('5: an access asks nothing of the API: while that does not answer, each alert is there and complete', async () => {
    const { pod, container } = await node.run({ name: 'web', labels: { app: 'web' } });
    await cluster.setPolicy('many', [{ path, matchAny: [{ matchLabels: { app: 'web' } }] }]);
    await cluster.dataCount('many', 1);
    await watched(1);
    cluster.signalApi('SIGSTOP');
    try {
      const script = `for i in $(seq 100); do read line < ${path}; done; cat ${path}`;
      const alerts = await alertsOf(() => node.lab.exec(container, ['sh', '-c', script]));
      assert.equal(alerts.length, 101);
      for (const alert of alerts) {
        assert.equal(summary(alert), `many default/web/nginx ${path} /bin/busybox 36`);
        assert.deepEqual([alert.pod.ip, alert.node.name], [pod.ip, 'n1']);
        assert.equal(alert.pod.container.id, `containerd://${container.id}`);
      }
    } finally {
      cluster.signalApi('SIGCONT');
    }
    await cluster.deletePolicy('many');
    await watched(0);
  });

  test('9: a pod that gets other labels is watched no more, and again when it has them back', async () => {
    const { container } = await node.run({ name: 'labels', labels: { level: 'high' } });
    await cluster.setPolicy('labels', [{ path, matchAny: [{ matchLabels: { level: 'high' } }] }]);
    for (const [level, count] of [
      ['high', 1],
      ['low', 0],
      ['high', 1],
      [null, 0],
    ] as const) {
      const body = { metadata: { labels: { level } } };
      await cluster.client.patch(podType, { namespace: 'default', name: 'labels' }, { type: 'merge', body });
      await cluster.dataCount('labels', count);
      await watched(count);
      const alerts = await alertsOf(() => node.lab.exec(container, ['cat', path]));
      assert.equal(alerts.length, count, `level ${level}`);
    }
    await cluster.deletePolicy('labels');
  });

  test('9: KiveData of an earlier boot go, whether the agent of the node is there or not; others stay', async () => {
    await node.run({ name: 'boots', labels: { app: 'boots' } });
    await cluster.setPolicy('boots', [{ path, matchAny: [{ matchLabels: { app: 'boots' } }] }]);
    const [data] = await cluster.dataCount('boots', 1);
    assert.ok(data);
    const bootIds = { n1: cluster.kernelId, n2: 'the-boot-of-n2' };
    for (const [name, bootID] of Object.entries(bootIds)) {
      await cluster.client.create(nodeType, { metadata: { name } });
      const body = { status: { nodeInfo: { bootID } } };
      await cluster.client.patch(nodeType, { name, subresource: 'status' }, { type: 'merge', body });
    }
    const copy = async (name: string, nodeName: string, kernelId: string): Promise<void> => {
      const { labels, annotations, finalizers, namespace } = data.metadata;
      const metadata = {
        ...{ name, namespace, labels, finalizers },
        annotations: { ...annotations, 'node-name': nodeName },
      };
      await cluster.client.create(kiveDataType, { metadata, spec: { ...data.spec, kernelId } } as KiveData);
    };
    await copy('other-node', 'n2', bootIds.n2);
    await copy('own-earlier-boot', 'n1', 'an-earlier-boot-of-n1');
    await copy('other-earlier-boot', 'n2', 'an-earlier-boot-of-n2');
    await copy('gone-node', 'n3', 'the-boot-of-n3');
    const left = await cluster.dataCount('boots', 2);
    assert.deepEqual(
      new Set(left.map(({ metadata }) => metadata.name)),
      new Set([data.metadata.name, 'other-node']),
    );
    await cluster.client.patch(
      ...([kiveDataType, { namespace: data.metadata.namespace, name: 'other-node' }] as const),
      { type: 'merge', body: { metadata: { finalizers: null } } },
    );
    await cluster.client.delete(kiveDataType, { namespace: data.metadata.namespace, name: 'other-node' });
    await cluster.deletePolicy('boots');
  });
});
