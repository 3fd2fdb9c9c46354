// Which KiveData an agent asks the API for: in a cluster of many nodes, those of the others would be nearly all.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { shareMetrics } from '../../../lib/kube/controller/shared-metrics.ts';
import { labelValue, labelValueProblems } from '../../../lib/kube/selectors/label-names.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { createMetrics } from '../../../lib/telemetry/metrics.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { type KiveData, kiveDataNamespace, kiveDataType, kivePolicyType } from '../api.ts';
import { kernelLabel, kiveDataFinalizer, nodeLabel } from '../kive-data.ts';
import { TestCluster } from './node.fixture.ts';

function dataOf(name: string, nodeName: string, kernelId: string): KiveData {
  return {
    metadata: {
      name,
      namespace: kiveDataNamespace,
      labels: { [kernelLabel]: kernelId, [nodeLabel]: labelValue(nodeName) },
      annotations: { 'node-name': nodeName, 'container-id': 'containerd://old' },
      finalizers: [kiveDataFinalizer],
    },
    spec: { inodeNo: 1, devId: 1, kernelId },
  };
}

suite('KiveData and the agents of a cluster', { skip: sensorSkip }, () => {
  test('those of its kernel; those of an earlier boot are deleted; one without its labels gets them', async () => {
    await using cluster = await TestCluster.start();
    await cluster.client.create(kiveDataType, dataOf('mine-before', 'n1', 'before'));
    await cluster.client.create(kiveDataType, dataOf('other', 'n2', 'of-n2'));
    const metrics = await createMetrics();
    const node = await cluster.startNode('n1', { metrics: shareMetrics(metrics) });
    const known = (): number =>
      Number(/^rampart_file_access_kivedata (\d+)$/m.exec(metrics.registry.metrics())?.[1]);
    await until('one that is left', async () => (await cluster.data()).length === 1);
    const [left] = await cluster.data();
    assert.equal(left?.metadata.name, 'other');
    assert.equal(left.metadata.deletionTimestamp, undefined);
    assert.equal(known(), 0);

    await cluster.createPod(node, { name: 'a', files: { '/secret.txt': 'x' } });
    await cluster.client.create(kivePolicyType, {
      metadata: { name: 'p', namespace: 'default' },
      spec: { traps: [{ path: '/secret.txt', matchAny: [{ namespace: 'default' }] }] },
    });
    const own = await until('its own', async () =>
      (await cluster.data()).find(({ metadata }) => metadata.name !== 'other'),
    );
    await until('it is known', () => known() === 1);
    const { name = '', namespace, labels } = own.metadata;
    const body = { metadata: { labels: { [kernelLabel]: null } } };
    await cluster.client.patch(kiveDataType, { namespace, name }, { type: 'merge', body });
    await until('the label is back', async () => {
      const { metadata } = await cluster.client.get(kiveDataType, { namespace, name });
      return metadata.labels?.[kernelLabel] === labels?.[kernelLabel];
    });
  });

  test('the label of a node with a long name is valid, and its own', () => {
    const long = `${'a'.repeat(70)}.example`;
    assert.equal(labelValue('worker-1'), 'worker-1');
    assert.deepEqual(labelValueProblems(labelValue(long)), []);
    assert.notEqual(labelValue(long), labelValue(`${long}s`));
  });
});
