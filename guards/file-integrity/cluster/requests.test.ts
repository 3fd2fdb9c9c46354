// Requests to nodes by annotations, on the embedded API.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { createMetrics } from '../../../lib/telemetry/metrics.ts';
import { shareMetrics } from '../../../lib/kube/controller/shared-metrics.ts';
import { names, released } from '../api.ts';
import { noDetection } from '../model/finding.ts';
import { requestAnnotation, requestsOf } from '../results/node-requests.ts';
import type { NodeRequest } from '../results/node-result.ts';
import { nodeStatusName } from '../results/object-names.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { failed, succeeded, TestCluster, testNamespace } from './cluster.fixture.ts';
import { reinitCount } from './reinit.ts';

async function requests(cluster: TestCluster, node: string): Promise<NodeRequest[]> {
  return requestsOf((await cluster.status('example', node))?.metadata.annotations);
}

suite('annotations', () => {
  test('re-init asks the nodes that it names and no others, each time anew', async () => {
    await using cluster = await TestCluster.start();
    for (const name of ['node-1', 'node-10', 'node-2']) await cluster.createNode(name);
    const metrics = await createMetrics();
    cluster.startOperator({ metrics: shareMetrics(metrics) });
    await cluster.createIntegrity('example');
    await cluster.phase('example', 'Initializing');
    const annotation = async (): Promise<string | undefined> =>
      (await cluster.integrity('example')).metadata.annotations?.[names.reinit];
    await cluster.annotate('example', { [names.reinit]: ' node-10, node-2,,other ' });
    await until('the annotation is gone', async () => (await annotation()) === undefined);
    const [asked] = await requests(cluster, 'node-10');
    assert.equal(asked?.kind, 're-init');
    assert.equal((await requests(cluster, 'node-2')).length, 1);
    assert.deepEqual(await requests(cluster, 'node-1'), []);
    await until('the unknown one is told', async () =>
      (await cluster.notes('FileIntegrityStatus')).some((note) => note.endsWith('does not select: other')),
    );
    await cluster.report('example', 'node-10', succeeded, { doneRequests: [asked.id] });
    assert.deepEqual(await requests(cluster, 'node-10'), []);
    // The same once more, while node-2 still has its first.
    await cluster.annotate('example', { [names.reinit]: 'node-10,node-2' });
    await until('the annotation is gone', async () => (await annotation()) === undefined);
    const [again] = await requests(cluster, 'node-10');
    assert.notEqual(again?.id, asked.id);
    assert.equal((await requests(cluster, 'node-2')).length, 2);
    // Failed ones, and all.
    await cluster.report('example', 'node-1', failed(1, 0, 0));
    await cluster.annotate('example', { [names.reinitOnFailed]: '' });
    const byFailure = await until(
      'the failed one is asked',
      async () => (await requests(cluster, 'node-1'))[0],
    );
    assert.deepEqual({ ...byFailure, id: '' }, { kind: 're-init', id: '', by: 'failure' });
    assert.equal((await requests(cluster, 'node-10')).length, 1);
    await cluster.annotate('example', { [names.reinit]: '' });
    await until('all are asked', async () => (await requests(cluster, 'node-1')).length === 2);
    await until('the count', () =>
      /^file_integrity_operator_reinit_total\{by="demand",node=""\} 1$/m.test(metrics.registry.metrics()),
    );
    const text = metrics.registry.metrics();
    assert.match(text, /^file_integrity_operator_reinit_total\{by="demand",node="node-10"\} 2$/m);
    assert.match(text, /^file_integrity_operator_reinit_total\{by="failure",node="node-1"\} 1$/m);
    assert.match(text, /^file_integrity_operator_node_failed\{node="node-1"\} 1$/m);
  });

  test('accepts objects that an earlier version stored or writes during an upgrade', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1');
    cluster.startOperator();
    const integrity = await cluster.createIntegrity('example');
    await cluster.phase('example', 'Initializing');
    // As it was before `lostAuthors` and `directoriesWithoutAuthors`.
    const { lostAuthors: _, directoriesWithoutAuthors: __, ...detection } = noDetection;
    const { uid = '' } = integrity.metadata;
    await cluster.client.create(released.nodeStatuses, {
      metadata: {
        namespace: testNamespace,
        name: nodeStatusName('example', 'n1'),
        labels: { [names.ownerLabel]: 'example', [names.nodeLabel]: 'n1' },
        ownerReferences: [
          { apiVersion: `${released.group}/v1alpha1`, kind: 'FileIntegrity', name: 'example', uid },
        ],
      },
      nodeName: 'n1',
      results: [],
      sequence: 1,
      detection,
    });
    await cluster.annotate('example', { [names.reinit]: '' });
    await until('it is asked', async () => (await requests(cluster, 'n1')).length === 1);
  });

  test('a request repeated after kubectl replace, which drops the annotations, is a new one', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1');
    cluster.startOperator();
    await cluster.createIntegrity('example');
    await cluster.report('example', 'n1', failed(0, 1, 0));
    const ids = new Set<string>();
    for (let time = 1; time <= 3; time++) {
      await cluster.annotate('example', { [reinitCount]: null, [names.reinit]: '' });
      const request = await until('it is asked', async () => (await requests(cluster, 'n1'))[0]);
      ids.add(request.id);
      await until('the annotation is gone', async () => {
        const { annotations: left } = (await cluster.integrity('example')).metadata;
        return left?.[names.reinit] === undefined;
      });
      await cluster.report('example', 'n1', succeeded, { doneRequests: [...ids] });
    }
    assert.equal(ids.size, 3);
  });

  test('an acceptance is reported with user and reason, and the request is removed', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1');
    cluster.startOperator();
    await cluster.createIntegrity('example');
    await cluster.report('example', 'n1', failed(0, 1, 0));
    const request = {
      kind: 'accept',
      id: 'ab12',
      path: '/etc/*',
      author: 'alice',
      reason: 'the update',
    } as const;
    const other = { kind: 're-init', id: 'cd34', by: 'annotation' } as const;
    const annotations = { ...requestAnnotation(request), ...requestAnnotation(other), kept: 'as it is' };
    await cluster.client.patch(
      released.nodeStatuses,
      { namespace: testNamespace, name: nodeStatusName('example', 'n1') },
      { type: 'merge', body: { metadata: { annotations } } },
    );
    await cluster.report('example', 'n1', succeeded, { doneRequests: ['ab12', 'never-asked'] });
    const status = await cluster.status('example', 'n1');
    assert.deepEqual(status?.metadata.annotations, { ...requestAnnotation(other), kept: 'as it is' });
    await until('an event', async () =>
      (await cluster.notes('NodeIntegrityAccepted')).includes(
        'alice accepted the changes to /etc/* on node n1: the update',
      ),
    );
  });

  test('holdoff is a condition, and counted', async () => {
    await using cluster = await TestCluster.start();
    const metrics = await createMetrics();
    cluster.startOperator({ metrics: shareMetrics(metrics) });
    await cluster.createIntegrity('example');
    const paused = (status: string): Promise<unknown> =>
      until(`paused is ${status}`, async () => {
        const conditions = (await cluster.integrity('example')).status?.conditions;
        return conditions?.find(({ type }) => type === 'Paused')?.status === status;
      });
    await paused('False');
    await cluster.annotate('example', { [names.holdoff]: '' });
    await paused('True');
    await cluster.annotate('example', { [names.holdoff]: null });
    await paused('False');
    const read = (name: string): string =>
      new RegExp(`^file_integrity_operator_${name}\\{node=""\\} (.*)$`, 'm').exec(
        metrics.registry.metrics(),
      )?.[1] ?? '';
    await until('both are counted', () => read('pause_total') === '1' && read('unpause_total') === '1');
  });
});
