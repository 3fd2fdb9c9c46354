import assert from 'node:assert/strict';
import { after, afterEach, before, suite, test } from 'node:test';

import { patience, until } from '../../../lib/testing/until.fixture.ts';
import { policyReportType } from '../../../guard/reports/policy-reports.ts';
import { ScanCluster } from '../scanner/scan.fixture.ts';
import { isPartName, partName, partNumber } from './part-name.ts';
import type { AuditReport } from './report.ts';

const hasTeam = "has(object.metadata.labels) && 'team' in object.metadata.labels";
const limitBytes = 4000;

async function fill(cluster: ScanCluster, objects: number): Promise<void> {
  await cluster.setNamespace('shop', {});
  for (let index = 0; index < objects; index++)
    await cluster.setObject('configmaps', 'shop', `o${String(index).padStart(2, '0')}`, {});
  await cluster.setPolicy('team', { expression: hasTeam, message: 'needs a team' });
}

const failing = async (cluster: ScanCluster): Promise<number> =>
  (await cluster.lines()).filter((line) => line.endsWith('team=fail')).length;
const versions = (reports: readonly AuditReport[]): Map<string, string> =>
  new Map(reports.map(({ metadata: { name = '', resourceVersion = '' } }) => [name, resourceVersion]));

suite('one report for a namespace', () => {
  let cluster: ScanCluster;
  before(async () => void (cluster = await ScanCluster.start()));
  afterEach(() => cluster.clear());
  after(() => cluster[Symbol.asyncDispose]());

  test('has all that is in it, and each result names its object', async () => {
    await fill(cluster, 3);
    await cluster.setPolicy('spaces', { kinds: ['namespaces'] });
    const { scanner } = await cluster.startScanner({ reportsBy: 'namespace' });
    await until(async () => (await cluster.reportObjects()).length === 2);
    const reports = await cluster.reportObjects();
    const report = reports.find(({ kind }) => kind === 'PolicyReport');
    assert.equal(report?.metadata.name, 'polr-ns-shop');
    assert.equal(report.scope, undefined);
    assert.equal(report.metadata.ownerReferences, undefined);
    assert.deepEqual(report.summary, { pass: 0, fail: 3, warn: 0, error: 0, skip: 0 });
    const object = await cluster.client.get(
      { group: '', version: 'v1', plural: 'configmaps', kind: 'ConfigMap', namespaced: true },
      { namespace: 'shop', name: 'o00' },
    );
    const { uid, resourceVersion } = object.metadata;
    const scope = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      namespace: 'shop',
      name: 'o00',
      uid,
      resourceVersion,
    };
    assert.deepEqual(report.results[0]?.resources, [scope]);
    const other = reports.find(({ kind }) => kind === 'ClusterPolicyReport');
    assert.equal(other?.metadata.name, 'polr-clusterwide');
    assert.ok(other.results.every(({ resources }) => resources?.[0]?.kind === 'Namespace'));
    assert.equal(scanner.store.writes, 2);
    const { evaluations, writes } = await scanner.pass(patience());
    assert.deepEqual([evaluations, writes], [0, 0]);
  });

  test('is split before it is too large, and a change of one object is one part that is written', async () => {
    await fill(cluster, 20);
    const { scanner, stop } = await cluster.startScanner({ partBytes: limitBytes });
    await until(async () => (await failing(cluster)) === 20);
    await scanner.pass(patience());
    const whole = await cluster.reportObjects();
    const names = whole.map(({ metadata }) => metadata.name ?? '').toSorted();
    assert.ok(whole.length >= 3, `${whole.length} parts`);
    assert.deepEqual(names, whole.map((_, index) => partName('shop', index + 1)).toSorted());
    for (const { results } of whole) assert.ok(Buffer.byteLength(JSON.stringify(results)) <= limitBytes);
    const { writes } = scanner.store;
    await cluster.setObject('configmaps', 'shop', 'o07', { team: 'x' });
    await until(async () => (await failing(cluster)) === 19);
    assert.equal(scanner.store.writes, writes + 1);
    const [old, now] = [versions(whole), versions(await cluster.reportObjects())];
    assert.equal([...now].filter(([name, version]) => old.get(name) !== version).length, 1);

    // Results from before a start are not written again, nor evaluated.
    await stop();
    const again = await cluster.startScanner({ partBytes: limitBytes });
    await until(() => again.passes.length > 0);
    assert.deepEqual([again.scanner.evaluations, again.scanner.store.writes], [0, 0]);
    assert.deepEqual(versions(await cluster.reportObjects()), now);

    // One that is gone leaves room, and the last one its part.
    for (let index = 0; index < 20; index++)
      await cluster.deleteObject('configmaps', 'shop', `o${String(index).padStart(2, '0')}`);
    await until(async () => (await cluster.reportObjects()).length === 0);
  });

  test('takes the place of reports of objects, and they its', async () => {
    await fill(cluster, 4);
    const first = await cluster.startScanner();
    await until(() => first.passes.length > 0);
    assert.equal((await cluster.reportObjects()).length, 4);
    await first.stop();
    const second = await cluster.startScanner({ reportsBy: 'namespace' });
    await until(() => second.passes.length > 0);
    assert.deepEqual(
      (await cluster.reportObjects()).map(({ metadata }) => metadata.name),
      ['polr-ns-shop'],
    );
    assert.equal(await failing(cluster), 4);
    await second.stop();
    const third = await cluster.startScanner();
    await until(() => third.passes.length > 0);
    assert.ok((await cluster.reportObjects()).every(({ scope, metadata }) => scope?.uid === metadata.name));
    assert.equal(await failing(cluster), 4);
  });

  test('is repaired when it is changed or deleted, or when two parts have the same object', async () => {
    await fill(cluster, 2);
    await cluster.startScanner({ reportsBy: 'namespace' });
    const isRight = async (): Promise<boolean> => {
      const reports = await cluster.reportObjects();
      return reports.length === 1 && reports[0]?.results.length === 2 && (await failing(cluster)) === 2;
    };
    await until(isRight);
    const target = { namespace: 'shop', name: 'polr-ns-shop' };
    const forged = [{ op: 'replace', path: '/results/0/result', value: 'pass' }];
    await cluster.client.patch(policyReportType, target, { type: 'json', body: forged });
    await until(isRight);
    await cluster.client.patch(policyReportType, target, {
      type: 'json',
      body: [{ op: 'remove', path: '/results/1' }],
    });
    await until(isRight);
    await cluster.client.delete(policyReportType, target);
    await until(isRight);
    const [report] = await cluster.reportObjects();
    assert.ok(report);
    const { labels } = report.metadata;
    const twin = {
      ...report,
      metadata: { namespace: 'shop', name: 'polr-ns-shop-2', ...(labels && { labels }) },
    };
    await cluster.client.create(policyReportType, twin as never);
    await until(isRight);
  });
});

test('names of parts', () => {
  assert.equal(partName('', 1), 'polr-clusterwide');
  assert.equal(partName('', 3), 'polr-clusterwide-3');
  for (const [key, number] of [
    ['shop/polr-ns-shop', 1],
    ['shop/polr-ns-shop-12', 12],
    ['shop/polr-ns-shop-1', 0],
    ['shop/polr-ns-shop-02', 0],
    ['shop/polr-ns-other', 0],
    ['shop-2/polr-ns-shop-2', 1],
    ['polr-clusterwide-2', 2],
    ['shop/polr-clusterwide', 0],
  ] as const)
    assert.equal(partNumber(key), number, key);
  assert.equal(isPartName('shop/8b0e6a1c-0000-0000-0000-000000000000'), false);
});
