import assert from 'node:assert/strict';
import { after, afterEach, before, suite, test } from 'node:test';

import { sampled } from '../../../lib/testing/depth.fixture.ts';
import { KubeError, unreachable } from '../../../lib/kube/client/client-errors.ts';
import { configMaps } from '../../../lib/kube/object/object.ts';
import { patience, until } from '../../../lib/testing/until.fixture.ts';
import { policyReportType } from '../../../guard/reports/policy-reports.ts';
import { clusterAdmissionPolicyType } from '../api.ts';
import type { Runtimes } from '../policies/open-policy.ts';
import { auditAnnotation } from '../policies/read-policy.ts';
import { ScanCluster } from './scan.fixture.ts';

const hasTeam = "has(object.metadata.labels) && 'team' in object.metadata.labels";

suite('a scanner', () => {
  let cluster: ScanCluster;
  before(async () => void (cluster = await ScanCluster.start()));
  afterEach(() => cluster.clear());
  after(() => cluster[Symbol.asyncDispose]());

  test('writes one report for each object, with what Kubewarden puts in it', async () => {
    await cluster.setNamespace('shop', {});
    const object = await cluster.setObject('configmaps', 'shop', 'cart', {});
    await cluster.setPolicy('team', {
      expression: hasTeam,
      message: 'needs a team',
      annotations: { 'io.kubewarden.policy.severity': 'high', 'io.kubewarden.policy.category': 'Labels' },
    });
    await cluster.startScanner();
    await until(async () => (await cluster.lines()).includes('shop ConfigMap cart: team=fail'));
    const [report] = await cluster.reports();
    const policy = await cluster.client.get(clusterAdmissionPolicyType, { name: 'team' });
    const { uid = '' } = object.metadata;
    assert.equal(report?.metadata.name, uid);
    assert.deepEqual(report.metadata.ownerReferences, [
      { apiVersion: 'v1', kind: 'ConfigMap', name: 'cart', uid },
    ]);
    assert.equal(report.metadata.labels?.['app.kubernetes.io/managed-by'], 'kubewarden');
    assert.equal(report.metadata.labels['kubewarden.io/policyreport-version'], 'v2');
    assert.match(report.metadata.labels['kubewarden.io/audit-scanner-run-uid'] ?? '', /^[0-9a-f-]{36}$/);
    const { resourceVersion } = object.metadata;
    assert.deepEqual(report.scope, {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      namespace: 'shop',
      name: 'cart',
      uid,
      resourceVersion,
    });
    assert.deepEqual(report.summary, { pass: 0, fail: 1, warn: 0, error: 0, skip: 0 });
    const [result] = report.results;
    assert.ok(result);
    const { timestamp, ...rest } = result;
    assert.ok(Math.abs(timestamp.seconds - Date.now() / 1000) < 60);
    assert.deepEqual(rest, {
      source: 'kubewarden',
      policy: 'clusterwide-team',
      category: 'Labels',
      severity: 'high',
      result: 'fail',
      scored: true,
      resourceSelector: {},
      message: 'needs a team',
      properties: {
        validating: 'true',
        'policy-resource-version': policy.metadata.resourceVersion ?? '',
        'policy-uid': policy.metadata.uid ?? '',
        'policy-name': 'team',
      },
    });
    assert.equal(policy.status?.policyStatus, 'active');
  });

  test('evaluates what has changed, and nothing else', async () => {
    await cluster.setNamespace('shop', {});
    for (let index = 0; index < 12; index++) await cluster.setObject('configmaps', 'shop', `o${index}`, {});
    await cluster.setPolicy('one', { expression: hasTeam });
    await cluster.setPolicy('two', {});
    const { scanner } = await cluster.startScanner();
    await until(
      async () => (await cluster.lines()).filter((line) => line.includes('one=fail two=pass')).length === 12,
    );
    const [evaluations, writes] = [scanner.evaluations, scanner.store.writes];
    assert.equal(evaluations, 24);
    assert.equal(writes, 12);

    await cluster.setObject('configmaps', 'shop', 'o3', { team: 'x' });
    await until(async () => (await cluster.lines()).includes('shop ConfigMap o3: one=pass two=pass'));
    assert.deepEqual([scanner.evaluations - evaluations, scanner.store.writes - writes], [2, 1]);

    // The policy alone: what the other one said is kept.
    await cluster.setPolicy('two', { expression: 'false' });
    await until(
      async () => (await cluster.lines()).filter((line) => line.includes('two=fail')).length === 12,
    );
    assert.equal(scanner.evaluations - evaluations, 2 + 12);

    const signal = patience();
    const summary = await scanner.pass(signal);
    assert.deepEqual(
      [summary.evaluations, summary.writes, summary.missed, summary.objects, summary.failing],
      [0, 0, 0, 12, 12],
    );
  });

  test('that starts anew takes the reports of the one before for what they say', async () => {
    await cluster.setNamespace('shop', {});
    for (let index = 0; index < 7; index++) await cluster.setObject('configmaps', 'shop', `o${index}`, {});
    await cluster.setPolicy('team', { expression: hasTeam });
    const first = await cluster.startScanner();
    await until(
      async () => (await cluster.lines()).filter((line) => line.includes('team=fail')).length === 7,
    );
    await first.stop();
    await cluster.setObject('configmaps', 'shop', 'o1', { team: 'x' });
    await cluster.deleteObject('configmaps', 'shop', 'o2');
    const { scanner, passes } = await cluster.startScanner();
    await until(() => passes.length > 0);
    await until(async () => (await cluster.lines()).includes('shop ConfigMap o1: team=pass'));
    assert.deepEqual([scanner.evaluations, scanner.store.writes], [1, 1]);
    await until(async () => (await cluster.reports()).length === 6);
  });

  test('repairs a report that another client has changed', async () => {
    await cluster.setNamespace('shop', {});
    const { metadata } = await cluster.setObject('configmaps', 'shop', 'cart', {});
    await cluster.setPolicy('team', { expression: hasTeam });
    await cluster.startScanner();
    const isRight = async (): Promise<boolean> =>
      (await cluster.lines()).join() === 'shop ConfigMap cart: team=fail';
    await until(isRight);
    const target = { namespace: 'shop', name: metadata.uid ?? '' };
    const forged = [{ op: 'replace', path: '/results/0/result', value: 'pass' }];
    await cluster.client.patch(policyReportType, target, { type: 'json', body: forged });
    await until(isRight);
    await cluster.client.delete(policyReportType, target);
    await until(isRight);
  });

  test('evaluates all of a namespace, or of a policy, when it is asked to', async () => {
    await cluster.setNamespace('shop', {});
    for (const name of ['a', 'b']) await cluster.setObject('configmaps', 'shop', name, {});
    await cluster.setPolicy('one', {});
    await cluster.setPolicy('two', {});
    const { scanner } = await cluster.startScanner();
    await until(async () => (await cluster.reports()).length === 2);
    await until(() => scanner.evaluations === 4 && scanner.store.writes === 2);
    const evaluatedAt = async (): Promise<string[]> =>
      (await cluster.reports()).flatMap(({ results }) =>
        results.map(({ timestamp }) => JSON.stringify(timestamp)),
      );
    const was = await evaluatedAt();
    const body = { metadata: { annotations: { [auditAnnotation]: 'now' } } };
    await cluster.client.patch(
      { ...configMaps, plural: 'namespaces', namespaced: false },
      { name: 'shop' },
      { type: 'merge', body },
    );
    await until(() => scanner.evaluations === 8 && scanner.store.writes === 4);
    const is = await evaluatedAt();
    assert.deepEqual([is.length, is.filter((one) => was.includes(one))], [4, []]);
    await cluster.client.patch(clusterAdmissionPolicyType, { name: 'one' }, { type: 'merge', body });
    await until(() => scanner.evaluations === 10);
    assert.equal((await cluster.reports()).length, 2);
  });

  test('writes only failures, if that is configured', async () => {
    await cluster.setNamespace('shop', {});
    await cluster.setObject('configmaps', 'shop', 'good', { team: 'x' });
    await cluster.setObject('configmaps', 'shop', 'bad', {});
    await cluster.setPolicy('team', { expression: hasTeam });
    await cluster.setPolicy('zero', {});
    const { scanner } = await cluster.startScanner({ failuresOnly: true });
    await until(async () => (await cluster.lines()).join() === 'shop ConfigMap bad: team=fail');
    await until(() => scanner.states.counts().objects === 2);
    await cluster.setObject('configmaps', 'shop', 'bad', { team: 'x' });
    await until(async () => (await cluster.reports()).length === 0);
    const evaluated = scanner.evaluations;
    await cluster.setPolicy('zero', { expression: 'false' });
    await until(
      async () =>
        (await cluster.lines()).join() === 'shop ConfigMap bad: zero=fail,shop ConfigMap good: zero=fail',
    );
    assert.equal(scanner.evaluations - evaluated, 2);
  });

  test('does not follow a kind that it may not list, says so, and audits it once it may', async (t) => {
    await cluster.setNamespace('shop', {});
    await cluster.setObject('configmaps', 'shop', 'cart', {});
    await cluster.setObject('secrets', 'shop', 'key', {});
    await cluster.setPolicy('any', { kinds: ['configmaps', 'secrets'] });
    const all = ['shop ConfigMap cart: any=pass', 'shop Secret key: any=pass'];
    const first = await cluster.startScanner();
    await until(async () => (await cluster.lines()).join() === all.join());
    await first.stop();

    const client = cluster.newClient();
    let isAllowed = false;
    let followed = 0;
    const forbidden = new KubeError({
      what: 'list secrets',
      status: 403,
      reason: 'Forbidden',
      message: 'no',
    });
    const list = client.list.bind(client);
    t.mock.method(client, 'list', async (...args: Parameters<typeof list>) => {
      if (args[0].plural === 'secrets' && !isAllowed) throw forbidden;
      return list(...args);
    });
    const listItems = client.listItems.bind(client);
    t.mock.method(client, 'listItems', async (...args: Parameters<typeof listItems>) => {
      if (args[0].plural === 'secrets') followed++;
      if (args[0].plural === 'secrets' && !isAllowed) throw forbidden;
      return listItems(...args);
    });
    const { scanner, passes } = await cluster.startScanner({ client });
    const [pass] = await until(() => passes.length > 0 && passes);
    assert.deepEqual([pass?.unread, followed], [['secrets'], 0]);
    assert.deepEqual(await cluster.lines(), all, 'what was written before stays');
    isAllowed = true;
    await cluster.setObject('secrets', 'shop', 'lock', {});
    assert.deepEqual((await scanner.pass(AbortSignal.timeout(60_000))).unread, []);
    assert.deepEqual(await cluster.lines(), [...all, 'shop Secret lock: any=pass']);
  });

  for (const reportsBy of sampled(['object', 'namespace'] as const, 1)) {
    test(`removes reports without a policy (by ${reportsBy}), however often the API fails`, async () => {
      await cluster.setNamespace('shop', {});
      await cluster.setObject('configmaps', 'shop', 'cart', {});
      await cluster.setPolicy('team', {});
      const first = await cluster.startScanner({ reportsBy });
      await until(() => first.passes.length > 0);
      assert.equal((await cluster.reportObjects()).length, 1);
      await first.stop();
      await cluster.deletePolicy('team');
      const client = cluster.newClient();
      const remove = client.delete.bind(client);
      let failures = 0;
      client.delete = (...args) =>
        failures++ < 3 ? Promise.reject(unreachable('delete', 'a test says so')) : remove(...args);
      const second = await cluster.startScanner({ reportsBy, client });
      await until(() => second.passes.length > 0);
      assert.equal(failures, 4);
      assert.equal((await cluster.reportObjects()).length, 0);
    });
  }

  for (const reportsBy of sampled(['object', 'namespace'] as const, 1)) {
    test(`removes reports of the other kind once it has written its own, by ${reportsBy}`, async () => {
      await cluster.setNamespace('shop', {});
      for (const name of ['a', 'b']) await cluster.setObject('configmaps', 'shop', name, {});
      await cluster.setPolicy('team', { expression: hasTeam });
      const first = await cluster.startScanner({ reportsBy });
      await until(() => first.passes.length > 0);
      await first.stop();
      const labels = { 'app.kubernetes.io/managed-by': 'kubewarden' };
      const foreign = { metadata: { namespace: 'shop', name: 'foreign', labels }, results: [] };
      await cluster.client.create(policyReportType, foreign);
      const there = await cluster.lines();
      const client = cluster.newClient();
      const remove = client.delete.bind(client);
      let missing = 0;
      client.delete = async (...args) => {
        if ((await cluster.lines('openreports')).length !== 2) missing++;
        return remove(...args);
      };
      const second = await cluster.startScanner({ client, reportsBy, reportKind: 'openreports' });
      await until(() => second.passes.length > 0);
      assert.deepEqual(await cluster.lines('openreports'), there);
      assert.deepEqual(
        (await cluster.reportObjects()).map(({ metadata }) => metadata.name),
        ['foreign'],
      );
      assert.equal(missing, 0);
      assert.equal(second.scanner.store.deletions, reportsBy === 'object' ? 2 : 1);
    });
  }

  test('works on a limited number of namespaces, objects and policies at the same time', async () => {
    for (const space of ['n0', 'n1', 'n2', 'n3']) {
      await cluster.setNamespace(space, {});
      for (let index = 0; index < 5; index++) await cluster.setObject('configmaps', space, `o${index}`, {});
    }
    for (let index = 0; index < 4; index++) await cluster.setPolicy(`p${index}`, {});
    const now = new Set<string>();
    let max = { namespaces: 0, objects: 0, policies: 0 };
    const distinct = (of: (line: string) => string): number => new Set([...now].map(of)).size;
    const runtimes: Runtimes = {
      world: {},
      open: ({ id }) =>
        Promise.resolve({
          runtime: 'wapc',
          validateSettings: () => Promise.resolve({ valid: true }),
          evaluate: async ({ namespace = '', name }) => {
            const line = `${namespace}/${name}/${id}`;
            now.add(line);
            const byObject = Map.groupBy(now, (one) => one.slice(0, one.lastIndexOf('/')));
            const bySpace = Map.groupBy(byObject.keys(), (one) => one.split('/')[0]);
            max = {
              namespaces: Math.max(
                max.namespaces,
                distinct((one) => one.split('/')[0] ?? ''),
              ),
              objects: Math.max(max.objects, ...[...bySpace.values()].map((one) => one.length)),
              policies: Math.max(max.policies, ...[...byObject.values()].map((one) => one.length)),
            };
            await new Promise((resolve) => setTimeout(resolve, 20));
            now.delete(line);
            return { allowed: true };
          },
          [Symbol.asyncDispose]: () => Promise.resolve(),
        }),
    };
    const { passes } = await cluster.startScanner({
      ...{ runtimes, parallelNamespaces: 2, parallelResources: 3, parallelPolicies: 2, pageSize: 100 },
    });
    await until(() => passes.length > 0);
    assert.deepEqual(max, { namespaces: 2, objects: 3, policies: 2 });
  });
});
