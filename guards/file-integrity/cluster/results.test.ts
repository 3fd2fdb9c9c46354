// Results of agents, and their processing, on the embedded API.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { customResourceDefinitions, established } from '../../../lib/kube/crd/established.ts';
import { crdManifest } from '../../../lib/kube/crd/manifest.ts';
import { configMaps, nodes, type ResourceType } from '../../../lib/kube/object/object.ts';
import { policyReports, policyReportType } from '../../../guard/reports/policy-reports.ts';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { createMetrics } from '../../../lib/telemetry/metrics.ts';
import { shareMetrics } from '../../../lib/kube/controller/shared-metrics.ts';
import { names } from '../api.ts';
import { labelValue, temporaryName } from '../results/object-names.ts';
import type { NodeResult } from '../results/node-result.ts';
import { requestsOf } from '../results/node-requests.ts';
import { resultAnnotation } from '../results/result-config-map.ts';
import { patience, until } from '../../../lib/testing/until.fixture.ts';
import { errored, failed, gone, succeeded, TestCluster, testNamespace } from './cluster.fixture.ts';

async function start(...nodeNames: string[]): Promise<TestCluster> {
  const cluster = await TestCluster.start();
  for (const name of nodeNames) await cluster.createNode(name);
  await cluster.createIntegrity('example');
  return cluster;
}

suite('results', () => {
  test('in one second, out of order, twice: the sequence decides which is the latest', async () => {
    await using cluster = await start('n1');
    cluster.startOperator();
    const atMs = Date.UTC(2026, 0, 1, 0, 0, 0, 100);
    const condition = async (): Promise<string | undefined> =>
      (await cluster.status('example', 'n1'))?.lastResult?.condition;
    await cluster.report('example', 'n1', succeeded, { sequence: 5, atMs });
    await cluster.report('example', 'n1', failed(1, 0, 0), { sequence: 6, atMs });
    assert.equal(await condition(), 'Failed');
    // The same again, with something else in it; and one from before.
    await cluster.report('example', 'n1', succeeded, { sequence: 6, atMs });
    await cluster.report('example', 'n1', errored('old'), { sequence: 4, atMs });
    assert.equal(await condition(), 'Failed');
    // The clock of the node was put back.
    await cluster.report('example', 'n1', succeeded, { sequence: 7, atMs: atMs - 3_600_000 });
    assert.equal(await condition(), 'Succeeded');
    // The node was set up anew.
    await cluster.report('example', 'n1', failed(0, 0, 1), { sequence: 0, atMs: atMs + 60_000 });
    assert.equal(await condition(), 'Failed');
    assert.equal((await cluster.status('example', 'n1'))?.sequence, 0);
  });

  test('a result made with an older baseline than one before is an error, and the newest stays known', async () => {
    await using cluster = await start('n1');
    cluster.startOperator();
    const baseline = (digit: string, madeAtMs: number): Pick<NodeResult, 'baseline'> => ({
      baseline: { provider: 'native', digest: digit.repeat(64), madeAtMs },
    });
    const madeAtMs = Date.UTC(2026, 0, 1);
    const created = new Date(madeAtMs).toISOString();
    await cluster.report('example', 'n1', succeeded, { sequence: 1, ...baseline('a', madeAtMs) });
    assert.deepEqual((await cluster.status('example', 'n1'))?.baseline, {
      ...{ provider: 'native', digest: 'a'.repeat(64), created },
    });
    // A process that knew no better.
    for (const [at, older] of [baseline('b', madeAtMs - 1), baseline('b', madeAtMs)].entries()) {
      await cluster.report('example', 'n1', succeeded, { sequence: 2 + 2 * at, ...older });
      const status = await cluster.status('example', 'n1');
      assert.equal(status?.lastResult?.condition, 'Errored');
      assert.match(status.lastResult.errorMessage ?? '', /older baseline/);
      assert.equal(status.baseline?.created, created);
      await cluster.report('example', 'n1', succeeded, { sequence: 3 + 2 * at, ...baseline('a', madeAtMs) });
      assert.equal((await cluster.status('example', 'n1'))?.lastResult?.condition, 'Succeeded');
    }
    await cluster.report('example', 'n1', errored('x'), { sequence: 6 });
    assert.equal((await cluster.status('example', 'n1'))?.baseline?.created, created);
    await cluster.report('example', 'n1', succeeded, { sequence: 7, ...baseline('c', madeAtMs + 1) });
    assert.equal((await cluster.status('example', 'n1'))?.baseline?.digest, 'c'.repeat(64));
  });

  test('a newer result in place of one that was not taken, and a log as long as there may be one', async () => {
    await using cluster = await start('n1');
    await cluster.write(cluster.result('example', 'n1', failed(1, 0, 0, 'first')));
    await cluster.write(cluster.result('example', 'n1', failed(2, 0, 0, 'x'.repeat(1_048_570))));
    const stop = cluster.startOperator();
    const kept = await until('the log', () => cluster.kept('example', 'n1'));
    assert.equal(kept.data?.['integritylog']?.length, 1_048_570);
    await until('it is taken', async () => (await cluster.temporary()).length === 0);
    await stop();
    const log = { data: 'gzip', compressed: true, tooLarge: false };
    const outcome = { kind: 'failed', added: 3, changed: 0, removed: 0, log } as const;
    await cluster.write(cluster.result('example', 'n1', outcome));
    cluster.startOperator();
    await until('it is taken', async () => (await cluster.temporary()).length === 0);
    const newer = await cluster.kept('example', 'n1');
    assert.equal(newer?.data?.['integritylog'], 'gzip');
    assert.equal(newer.metadata.annotations?.[names.compressed], '');
    await cluster.report('example', 'n1', failed(4, 0, 0, 'plain'));
    assert.equal((await cluster.kept('example', 'n1'))?.metadata.annotations?.[names.compressed], undefined);
  });

  test('one that cannot be read is an error of its node, and no stop', async () => {
    await using cluster = await start('n1', 'n2');
    cluster.startOperator();
    await cluster.phase('example', 'Initializing');
    await cluster.report('example', 'n1', succeeded);
    const labels = { [names.ownerLabel]: 'example', [names.nodeLabel]: 'n1', [names.logLabel]: '' };
    const annotations = { [resultAnnotation]: '{"kind":' };
    const metadata = { namespace: testNamespace, name: temporaryName('example', 'n1'), labels, annotations };
    await cluster.client.create(configMaps, { metadata });
    const damaged = await until('the error', async () => {
      const last = (await cluster.status('example', 'n1'))?.lastResult;
      return last?.condition === 'Errored' && last;
    });
    assert.match(damaged.errorMessage ?? '', /the result in ConfigMap .*aide-example-n1: .* is not JSON/);
    await until('it is gone', async () => (await cluster.temporary()).length === 0);
    // A result with an unknown owner.
    const nobody = { [names.logLabel]: '', [names.ownerLabel]: 'example', [names.nodeLabel]: 'nowhere' };
    await cluster.client.create(configMaps, { metadata: { ...metadata, name: 'aide-odd', labels: nobody } });
    await until('an event about it', async () =>
      (await cluster.events()).some(({ regarding }) => regarding?.name === 'aide-odd'),
    );
    await until('it is gone', async () => (await cluster.temporary()).length === 0);
    // An empty log, which stops FIO's collector for good.
    await cluster.report('example', 'n2', failed(1, 0, 0, ''));
    assert.equal((await cluster.status('example', 'n2'))?.lastResult?.condition, 'Failed');
    await cluster.report('example', 'n1', succeeded);
    assert.equal((await cluster.status('example', 'n1'))?.lastResult?.condition, 'Succeeded');
  });

  test('distinguishes names that exceed a label, and names that the File Integrity Operator confuses', async () => {
    const long = `${'very-'.repeat(20)}long.example.com`;
    await using cluster = await start(long, 'b-c', 'c');
    cluster.startOperator();
    await cluster.report('example', long, failed(1, 0, 0));
    const status = await cluster.status('example', long);
    assert.equal(status?.nodeName, long);
    assert.equal(status.metadata.labels?.[names.nodeLabel], labelValue(long));
    assert.match((await cluster.kept('example', long))?.metadata.name ?? '', /^aide-[0-9a-f]{40}-failed$/);
    // A damaged one of it is known by its label.
    const labels = {
      [names.ownerLabel]: 'example',
      [names.nodeLabel]: labelValue(long),
      [names.logLabel]: '',
    };
    const name = temporaryName('example', long);
    await cluster.client.create(configMaps, {
      metadata: { namespace: testNamespace, name, labels, annotations: { [resultAnnotation]: '' } },
    });
    await until(
      'its error',
      async () => (await cluster.status('example', long))?.lastResult?.condition === 'Errored',
    );
    await cluster.createIntegrity('a');
    await cluster.createIntegrity('a-b');
    await cluster.report('a', 'b-c', succeeded);
    await cluster.report('a-b', 'c', failed(1, 0, 0));
    const first = await cluster.status('a', 'b-c');
    assert.equal(first?.lastResult?.condition, 'Succeeded');
    assert.equal(first.nodeName, 'b-c');
    await until('it is told', async () =>
      (await cluster.notes('NodeIntegrityStatus')).some((note) => note.includes('and another FileIntegrity')),
    );
    // Nor is the other one asked for a new baseline.
    await cluster.annotate('a-b', { [names.reinit]: 'c' });
    await until('it is told', async () =>
      (await cluster.notes('FileIntegrityStatus')).some((note) =>
        note.startsWith('cannot request a new baseline of node c'),
      ),
    );
    assert.deepEqual(requestsOf((await cluster.status('a', 'b-c'))?.metadata.annotations), []);
    await cluster.client.delete(nodes, { name: long });
    await until('all of it is gone', async () => {
      const left = [await cluster.status('example', long), await cluster.kept('example', long)];
      return left.every((one) => one === undefined);
    });
  });

  deepTest('an event for each of many nodes', async () => {
    const nodeNames = Array.from({ length: 40 }, (_, at) => `n${at}`);
    await using cluster = await start(...nodeNames);
    for (const name of nodeNames) await cluster.write(cluster.result('example', name, failed(1, 0, 0)));
    cluster.startOperator();
    await until('all are told', async () => {
      const notes = new Set(await cluster.notes('NodeIntegrityStatus'));
      const log = (name: string): string => `${testNamespace}/aide-example-${name}-failed`;
      return nodeNames.every((name) => notes.has(`node ${name} has changed! a:1,c:0,r:0 log:${log(name)}`));
    });
  });

  test('without Node objects every node that answers counts', async () => {
    await using cluster = await start();
    cluster.startOperator();
    await cluster.phase('example', 'Pending');
    await cluster.report('example', 'this-machine', failed(1, 0, 0));
    await cluster.phase('example', 'Active');
    assert.ok(await cluster.kept('example', 'this-machine'));
  });

  test('keeps metrics over a restart without a second event', async () => {
    await using cluster = await start('n1');
    const stop = cluster.startOperator();
    await cluster.report('example', 'n1', failed(1, 0, 0));
    await cluster.report('example', 'n1', errored('not now'));
    await cluster.phase('example', 'Error');
    await stop();
    const metrics = await createMetrics();
    cluster.startOperator({ metrics: shareMetrics(metrics) });
    // An error says nothing about the files: they differed.
    await until('the gauge', () => /node_failed\{node="n1"\} 1/.test(metrics.registry.metrics()));
    await cluster.report('example', 'n1', errored('not now'));
    assert.match(metrics.registry.metrics(), /^# TYPE file_integrity_operator_node_status_total counter$/m);
    assert.doesNotMatch(metrics.registry.metrics(), /^file_integrity_operator_node_status_total\{/m);
    await cluster.report('example', 'n1', errored('something else', 'BaselineDamaged'));
    const text = metrics.registry.metrics();
    assert.match(text, /^file_integrity_operator_node_status_total\{condition="Errored",node="n1"\} 1$/m);
    assert.match(
      text,
      /^file_integrity_operator_node_status_error_total\{error="BaselineDamaged",node="n1"\} 1$/m,
    );
    await cluster.client.delete(nodes, { name: 'n1' });
    await cluster.createNode('n2');
    await until('the gauge is gone', () => !metrics.registry.metrics().includes('node="n1"'));
  });

  test('a node that continues with the baseline of an earlier FileIntegrity: status and event say so, once', async () => {
    await using cluster = await start('n1');
    cluster.startOperator();
    const continued = { continuedFromMs: Date.UTC(2026, 0, 2) };
    const reported = async (): Promise<string[]> => await cluster.notes('NodeIntegrityContinued');
    await cluster.report('example', 'n1', succeeded, continued);
    await cluster.report('example', 'n1', failed(0, 1, 0), continued);
    assert.equal((await cluster.status('example', 'n1'))?.continuedFrom, '2026-01-02T00:00:00Z');
    // An error says nothing about the baseline.
    await cluster.report('example', 'n1', errored('no'));
    assert.equal((await cluster.status('example', 'n1'))?.continuedFrom, '2026-01-02T00:00:00Z');
    await cluster.report('example', 'n1', succeeded);
    assert.equal((await cluster.status('example', 'n1'))?.continuedFrom, undefined);
    const [note, ...others] = await reported();
    assert.match(note ?? '', /^node n1 continues with the baseline of 2026-01-02T00:00:00Z.*re-init$/);
    assert.deepEqual(others, []);
  });

  test('updates of packages: in the status, and an event when they are accepted, once', async () => {
    await using cluster = await start('n1');
    cluster.startOperator();
    const atMs = Date.UTC(2026, 0, 2);
    const explained = { update: 'tool 1 -> 2', files: 3, atMs, accepted: false };
    const accepted = { update: 'other 1 -> 2', files: 1, atMs, accepted: true };
    await cluster.report('example', 'n1', failed(0, 3, 0), { updates: [explained] });
    for (const outcome of [failed(0, 3, 0), succeeded])
      await cluster.report('example', 'n1', outcome, { updates: [accepted, explained] });
    const time = '2026-01-02T00:00:00Z';
    assert.deepEqual((await cluster.status('example', 'n1'))?.packageUpdates, [
      { update: 'other 1 -> 2', files: 1, time, accepted: true },
      { update: 'tool 1 -> 2', files: 3, time, accepted: false },
    ]);
    assert.deepEqual(await cluster.notes('NodeIntegrityAccepted'), [
      'updates of packages were accepted on node n1: other 1 -> 2 (1 file)',
    ]);
  });

  test('reports are written, and go with the node', async () => {
    await using cluster = await start('n1', 'n2');
    const type: ResourceType = customResourceDefinitions;
    await cluster.client.create(type, crdManifest(policyReports));
    const signal = patience();
    await established(cluster.client, 'policyreports.wgpolicyk8s.io', { timeoutMs: 10_000, signal });
    cluster.startOperator();
    await cluster.report('example', 'n1', failed(0, 1, 0));
    await cluster.report('example', 'n2', succeeded);
    const report = (node: string) =>
      gone(cluster.client.get(policyReportType, { namespace: testNamespace, name: `example-${node}` }));
    const written = await report('n1');
    assert.equal(written?.summary?.fail, 1);
    assert.equal(written.metadata.ownerReferences?.[0]?.name, 'example');
    assert.equal((await report('n2'))?.summary?.pass, 1);
    await cluster.client.delete(nodes, { name: 'n1' });
    await until('the report is gone', async () => (await report('n1')) === undefined);
  });
});
