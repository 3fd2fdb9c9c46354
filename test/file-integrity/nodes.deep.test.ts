// Several nodes: each has its own baseline, what is asked of one is done by one, and what is gone is gone.
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { until } from '../../lib/testing/until.fixture.ts';
import { names } from '../../guards/file-integrity/api.ts';
import {
  fileIntegrity,
  IntegrityCluster,
  type IntegrityNode,
  namespace,
} from './integrity-cluster.fixture.ts';

const fi = 'workers';
let cluster: IntegrityCluster;
let nodes: readonly IntegrityNode[];

before(async () => {
  cluster = await IntegrityCluster.start();
  const worker = { labels: { 'node-role.kubernetes.io/worker': '' } };
  // One name is the beginning of the other.
  nodes = [await cluster.addNode('node-1', worker), await cluster.addNode('node-10', worker)];
  // No agent runs there, and none is waited for.
  await cluster.apply({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-2' } });
  for (const node of nodes) {
    node.write('/etc/name', node.name);
    node.agent.start();
  }
});
after(async () => {
  await cluster[Symbol.asyncDispose]();
});

async function sequenceOf(node: string): Promise<number> {
  return (await cluster.status(fi, node))?.sequence ?? 0;
}

suite('two nodes', () => {
  test('each is compared with its own baseline', async () => {
    const spec = { nodeSelector: { 'node-role.kubernetes.io/worker': '' }, config: { gracePeriod: 10 } };
    await cluster.apply(fileIntegrity(fi, spec));
    for (const { name } of nodes) await cluster.condition(fi, name, 'Succeeded');
    const { status } = await cluster.phase(fi, 'Active');
    assert.deepEqual(
      status?.nodeStatus?.map(({ nodeName }) => nodeName),
      ['node-1', 'node-10'],
    );
    for (const node of nodes) node.write('/etc/name', 'changed');
    for (const { name } of nodes) await cluster.failed(fi, name, [0, 1, 0]);
  });

  test('re-init of node-1 is not one of node-10, and the other way round', async () => {
    await cluster.annotate(fi, `${names.reinit}=node-1`);
    await cluster.condition(fi, 'node-1', 'Succeeded');
    const last = await sequenceOf('node-10');
    // Its next scan.
    await until('another result of node-10', async () => (await sequenceOf('node-10')) > last);
    await cluster.failed(fi, 'node-10', [0, 1, 0]);

    nodes[0]?.write('/etc/name', 'changed again');
    await cluster.failed(fi, 'node-1', [0, 1, 0]);
    await cluster.annotate(fi, `${names.reinit}=node-10,node-7`);
    await cluster.condition(fi, 'node-10', 'Succeeded');
    await cluster.failed(fi, 'node-1', [0, 1, 0]);
    await until('the node that nobody knows is told', async () =>
      (await cluster.notes('FileIntegrityStatus')).some((note) => note.includes('node-7')),
    );

    // Only those that failed.
    const sequence = await sequenceOf('node-10');
    await cluster.annotate(fi, `${names.reinitOnFailed}=`);
    await cluster.condition(fi, 'node-1', 'Succeeded');
    const { metadata } = (await cluster.status(fi, 'node-10')) ?? {};
    assert.deepEqual(
      Object.keys(metadata?.annotations ?? {}).filter((name) => name.includes('request')),
      [],
    );
    assert.ok((await sequenceOf('node-10')) >= sequence);
    await cluster.phase(fi, 'Active');
  });

  test('a node that is removed takes its status, report and log with it', async () => {
    const [, gone] = nodes;
    gone?.write('/etc/name', 'changed before it goes');
    await cluster.failed(fi, 'node-10', [0, 1, 0]);
    await gone?.agent.stop();
    await cluster.kubectl(['delete', 'node', 'node-10']);
    await until('its status is gone', async () => (await cluster.status(fi, 'node-10')) === undefined);
    await until('its report is gone', async () => (await cluster.report(fi, 'node-10')) === undefined);
    await until('its log is gone', async () => (await cluster.kept(fi, 'node-10')) === undefined);
    await until('the whole tells of node-1 only', async () => {
      const { nodeStatus = [] } = (await cluster.integrity(fi)).status ?? {};
      return nodeStatus.length > 0 && nodeStatus.every(({ nodeName }) => nodeName === 'node-1');
    });
    assert.equal((await cluster.status(fi, 'node-1'))?.lastResult?.condition, 'Succeeded');
    const failing = (await cluster.operatorMetrics()).match(/^file_integrity_operator_node_failed\{.*$/gm);
    assert.deepEqual(failing, ['file_integrity_operator_node_failed{node="node-1"} 0']);
  });

  test('a FileIntegrity that is deleted leaves its log as a record; the next of its name continues from its baseline', async () => {
    const [node] = nodes;
    node?.write('/etc/name', 'once more');
    await cluster.failed(fi, 'node-1', [0, 1, 0]);
    const resource = 'fileintegrities.fileintegrity.openshift.io';
    await cluster.kubectl(['delete', resource, fi, '-n', namespace]);
    await until('nothing of it is left', async () => {
      const left = [await cluster.status(fi, 'node-1'), await cluster.configMap(fi)];
      return left.every((one) => one === undefined) && (await cluster.report(fi, 'node-1')) === undefined;
    });
    assert.ok(await cluster.kept(fi, 'node-1'));
    // Changes between the two are not lost.
    await cluster.apply(fileIntegrity(fi, { config: {} }));
    await cluster.failed(fi, 'node-1', [0, 1, 0]);
  });
});
