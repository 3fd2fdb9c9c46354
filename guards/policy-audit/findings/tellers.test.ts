// Findings of this guard's parts: admission in standalone, policy servers, audits, and the policies
// themselves.
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { assertFinding } from '../../../guard/stream/finding-schema.fixture.ts';
import { readFinding } from '../../../guard/stream/read-finding.ts';
import { configMaps, namespaces } from '../../../lib/kube/object/object.ts';
import { patience, until } from '../../../lib/testing/until.fixture.ts';
import { AdmittingApi } from '../admission/admitting-api.fixture.ts';
import { clusterAdmissionPolicyType } from '../api.ts';
import { policiesFileOf } from '../cluster/policies-entry.ts';
import { readKubewardenPolicy } from '../policies/read-policy.ts';
import { clusterPolicy, ScanCluster } from '../scanner/scan.fixture.ts';
import { parsePoliciesFile } from '../server/policies-file.ts';
import { modulePath, review, ServerFixture } from '../server/policy-server.fixture.ts';

/** `rejected high ConfigMap shop/bad by x: reason` of each. */
function said(lines: readonly string[]): string[] {
  return lines.map((line) => {
    const finding = readFinding(line);
    assert.ok(finding, line);
    assertFinding(line);
    const { verdict, severity, object, policy } = finding.head;
    const what = object === null ? 'nothing' : `${object.kind} ${object.namespace}/${object.name}`;
    return `${verdict} ${severity} ${what} by ${policy?.name ?? 'nobody'}: ${String(finding.keys['reason'])}`;
  });
}

const notBad = "object.metadata.name != 'bad'";
const severity = (word: string) => ({ 'io.kubewarden.policy.severity': word });

suite('writes, in standalone', () => {
  let api: AdmittingApi;
  before(async () => {
    api = await AdmittingApi.start();
    await api.client.create(namespaces, { metadata: { name: 'shop' } });
  });
  after(() => api[Symbol.asyncDispose]());

  test('refused, let through, not judged; and nothing of one that is allowed', async () => {
    const mode = (word: string) => ({ more: { mode: word } });
    for (const policy of [
      clusterPolicy('protects', { expression: notBad, message: 'no', annotations: severity('low') }),
      clusterPolicy('watches', { expression: "object.metadata.name != 'odd'", ...mode('monitor') }),
      clusterPolicy('fails', { expression: "object.metadata.name != 'lost' || object.data.x == ''" }),
    ])
      await api.client.create(clusterAdmissionPolicyType, policy);
    await until(() => api.policies.enforced.length === 3);
    const create = (name: string) =>
      api.client.create(configMaps, { metadata: { namespace: 'shop', name } }).then(
        () => 'written',
        () => 'refused',
      );
    assert.deepEqual(
      [await create('good'), await create('bad'), await create('odd'), await create('lost')],
      ['written', 'refused', 'written', 'refused'],
    );
    const [rejected, monitored, errored, ...more] = said(api.lines);
    assert.deepEqual(more, []);
    assert.equal(rejected, 'rejected low ConfigMap shop/bad by protects: no');
    assert.equal(monitored, 'monitored medium ConfigMap shop/odd by watches: no');
    assert.match(errored ?? '', /^errored high ConfigMap shop\/lost by fails: .*no such key/);
    const { keys } = readFinding(api.lines[0] ?? '') ?? assert.fail();
    assert.equal(keys['operation'], 'CREATE');
    assert.match(String(keys['user']), /./);
  });
});

test('writes, by a policy server: its file names the object of each policy', async () => {
  const entries = (policies: readonly ReturnType<typeof clusterPolicy>[]): object =>
    JSON.parse(policiesFileOf(policies.map(readKubewardenPolicy), new Map(), undefined)) as object;
  const written = entries([
    clusterPolicy('protects', { expression: notBad, message: 'no', annotations: severity('critical') }),
    clusterPolicy('watches', { expression: notBad, message: 'no', more: { mode: 'monitor' } }),
  ]);
  assert.deepEqual(parsePoliciesFile(JSON.stringify(written), 'it').unknown, []);
  const mine = {
    module: modulePath('unruly.wapc'),
    settings: { do: 'trap' },
  };
  await using server = await ServerFixture.start({ ...written, mine });
  const ask = async (path: string, name: string) =>
    (await server.post(path, review({}, name))).body.response?.allowed;
  assert.equal(await ask('/validate/clusterwide-protects', 'good'), true);
  assert.equal(await ask('/audit/clusterwide-protects', 'bad'), false);
  assert.equal(await ask('/validate/clusterwide-protects', 'bad'), false);
  assert.equal(await ask('/validate/clusterwide-watches', 'bad'), true);
  assert.equal(await ask('/validate/mine', 'bad'), false);
  const [rejected, monitored, errored, ...more] = said(server.lines);
  assert.deepEqual(more, []);
  assert.match(rejected ?? '', /^rejected critical Pod \S+ by protects: no$/);
  assert.match(monitored ?? '', /^monitored medium Pod \S+ by watches: no$/);
  assert.match(errored ?? '', /^errored high Pod \S+ by nobody: internal server error/);
});

suite('audits', () => {
  let cluster: ScanCluster;
  before(async () => void (cluster = await ScanCluster.start()));
  after(() => cluster[Symbol.asyncDispose]());

  test('objects that begin or cease to violate a policy; not repeated by a restarted process', async () => {
    const hasTeam = "has(object.metadata.labels) && 'team' in object.metadata.labels";
    await cluster.setNamespace('shop', {});
    for (const name of ['one', 'two']) await cluster.setObject('configmaps', 'shop', name, {});
    await cluster.setObject('configmaps', 'shop', 'good', { team: 'x' });
    await cluster.setPolicy('team', {
      expression: hasTeam,
      message: 'no team',
      annotations: severity('high'),
    });
    const first = await cluster.startScanner();
    await until(() => first.passes.length > 0);
    assert.deepEqual(said(first.findings).toSorted(), [
      'failing high ConfigMap shop/one by team: no team',
      'failing high ConfigMap shop/two by team: no team',
    ]);
    await cluster.setObject('configmaps', 'shop', 'one', { team: 'x' });
    // Another change, and the same result.
    await cluster.setObject('configmaps', 'shop', 'two', { colour: 'red' });
    await until(() => first.findings.length >= 3);
    await first.scanner.pass(patience());
    assert.deepEqual(said(first.findings).slice(2), ['passing info ConfigMap shop/one by team: ']);
    await first.stop();

    await cluster.setObject('configmaps', 'shop', 'one', {});
    await cluster.setObject('configmaps', 'shop', 'two', { colour: 'blue' });
    await cluster.setObject('configmaps', 'shop', 'new', {});
    const second = await cluster.startScanner();
    await until(() => second.passes.length > 0);
    assert.deepEqual(said(second.findings).toSorted(), [
      'failing high ConfigMap shop/new by team: no team',
      'failing high ConfigMap shop/one by team: no team',
    ]);
    await second.stop();
  });

  test('a policy that cannot be evaluated: once, not again after a restart, and when it can', async () => {
    await cluster.clear();
    await cluster.setPolicy('broken', { expression: 'object.metadata.' });
    const first = await cluster.startScanner();
    await until(() => first.findings.length > 0);
    const [line, ...more] = said(first.findings);
    assert.deepEqual(more, []);
    assert.match(line ?? '', /^errored high ClusterAdmissionPolicy \/broken by broken: ./);
    await until(async () => {
      const { status } = await cluster.client.get(clusterAdmissionPolicyType, { name: 'broken' });
      return status?.conditions?.some(({ reason }) => reason === 'PolicyCannotRun') === true;
    });
    await first.stop();

    const second = await cluster.startScanner();
    await until(() => second.policies.problems.size > 0);
    assert.deepEqual(second.findings, []);
    await cluster.setPolicy('broken', { expression: 'true' });
    await until(() => second.findings.length > 0);
    assert.deepEqual(said(second.findings), ['passing info ClusterAdmissionPolicy /broken by broken: ']);
    await second.stop();

    const third = await cluster.startScanner();
    await until(() => third.passes.length > 0);
    assert.deepEqual(third.findings, []);
  });
});
