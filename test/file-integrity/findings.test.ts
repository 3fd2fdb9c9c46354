// From a manifest to findings and back: both providers, both API groups, with the commands that users start. In deep tests, on two nodes and
// beside all other guards.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { gunzipSync } from 'node:zlib';

import { deepTest, isDeep } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { type IntegrityTypes, design, names, released } from '../../guards/file-integrity/api.ts';
import {
  fileIntegrity,
  IntegrityCluster,
  type IntegrityNode,
  namespace,
} from './integrity-cluster.fixture.ts';

let cluster: IntegrityCluster;
let node: IntegrityNode;
/** Its name begins with that of the other; in deep tests alone. */
let second: IntegrityNode;

before(async () => {
  cluster = await IntegrityCluster.start({ isAlone: !isDeep });
  node = await cluster.addNode('n1', { labels: onFirst });
  for (const [path, content] of Object.entries(host)) node.write(path, content);
  if (isDeep) {
    second = await cluster.addNode('n10', { args: ['--guards', 'file-integrity'] });
    for (const one of [node, second]) one.write('/srv/name', one.name);
    second.agent.start();
  }
  node.agent.start();
});
after(async () => {
  await cluster[Symbol.asyncDispose]();
});

const onFirst = { 'kubernetes.io/hostname': 'n1' };
const host: Readonly<Record<string, string>> = {
  '/etc/passwd': 'root:x:0:0::/root:/bin/sh\n',
  '/etc/hosts': '127.0.0.1 localhost\n',
  '/etc/mtab': 'left out\n',
  '/usr/bin/ls': 'a program\n',
  '/var/log/messages': 'not selected\n',
  '/srv/meant/a': 'a\n',
  '/srv/meant/b': 'b\n',
};

/** As in the README of the File Integrity Operator. */
const releasedManifest = `
apiVersion: fileintegrity.openshift.io/v1alpha1
kind: FileIntegrity
metadata:
  name: example-fileintegrity
  namespace: openshift-file-integrity
spec:
  nodeSelector:
    kubernetes.io/hostname: "n1"
  tolerations:
  - key: "myNode"
    operator: "Exists"
    effect: "NoSchedule"
  config:
    gracePeriod: 10
    maxBackups: 5
  debug: false
`;

/** As in its design document, which calls a provider to come. */
const designManifest = `
apiVersion: file-integrity.openshift.io/v1alpha1
kind: FileIntegrity
metadata:
  name: by-aide
  namespace: openshift-file-integrity
spec:
  provider: aide
  nodeSelector:
    kubernetes.io/hostname: "n1"
  config:
    gracePeriod: 10
`;

/** A baseline before the present one, of either provider. */
const backup = /^(baseline\.backup-|aide\.baseline\.\d)/;

interface Case {
  readonly fi: string;
  readonly types: IntegrityTypes;
  readonly manifest: string;
}
const cases: readonly Case[] = [
  { fi: 'example-fileintegrity', types: released, manifest: releasedManifest },
  { fi: 'by-aide', types: design, manifest: designManifest },
];

/** Checks the visible effects of the test's changes, whichever process found them. */
async function seeFailed({ fi, types }: Case): Promise<void> {
  const status = await cluster.failed(fi, 'n1', [1, 1, 1], types);
  const found = (status.findings ?? []).map(({ path, change, attributes }) => ({
    path,
    change,
    hasDigest: attributes.includes('sha512'),
  }));
  assert.deepEqual(
    found.toSorted((a, b) => (a.path < b.path ? -1 : 1)),
    [
      { path: '/etc/hosts', change: 'removed', hasDigest: false },
      { path: '/etc/passwd', change: 'changed', hasDigest: true },
      { path: '/usr/bin/evil', change: 'added', hasDigest: false },
    ],
  );
  const { resultConfigMapName: name = '', resultConfigMapNamespace } = status.lastResult;
  assert.deepEqual([name, resultConfigMapNamespace], [`aide-${fi}-n1-failed`, namespace]);
  const log = (await cluster.configMap(name))?.data?.[names.logKey] ?? '';
  for (const path of ['/hostroot/etc/hosts', '/hostroot/etc/passwd', '/hostroot/usr/bin/evil']) {
    assert.ok(log.includes(path), `${path} is not in the log:\n${log}`);
  }
  assert.doesNotMatch(log, /mtab|messages/);

  // The status of the whole, the report and the event follow.
  await until(`${fi} tells of n1`, async () => {
    const { nodeStatus = [] } = (await cluster.integrity(fi, types)).status ?? {};
    return nodeStatus.some(({ nodeName, condition, resultConfigMapName }) => {
      return nodeName === 'n1' && condition === 'Failed' && resultConfigMapName === name;
    });
  });
  const report = await cluster.report(fi, 'n1');
  assert.deepEqual(report?.scope, { apiVersion: 'v1', kind: 'Node', name: 'n1' });
  assert.equal(report?.summary?.fail, 3);
  assert.deepEqual(
    report?.results
      ?.map(({ rule, result, properties }) => `${rule} ${result} ${properties?.['path']}`)
      .toSorted(),
    ['file-added fail /usr/bin/evil', 'file-changed fail /etc/passwd', 'file-removed fail /etc/hosts'],
  );
  const reported = `node n1 has changed! a:1,c:1,r:1 log:${namespace}/${name}`;
  await until(`the event ${reported}`, async () =>
    (await cluster.notes('NodeIntegrityStatus')).some(
      (note) => note.toLowerCase() === reported.toLowerCase(),
    ),
  );
  const wanted = ['added /usr/bin/evil', 'changed /etc/passwd', 'removed /etc/hosts'];
  await until(`the lines of ${fi}`, () => {
    const lines = node.findings().filter((line) => line.fileIntegrity === `${namespace}/${fi}`);
    const said = lines.map(({ node: of, state, change, path }) => `${of.name} ${state} ${change} ${path}`);
    // A file that is written during a comparison is reported more than once.
    return [...new Set(said)].toSorted().join() === wanted.map((one) => `n1 found ${one}`).join();
  });
}

/** For the first node only, unless given otherwise. */
async function create(name: string, rules: string, nodeSelector: object = onFirst): Promise<void> {
  const metadata = { name: `${name}-conf`, namespace };
  const data = { 'aide.conf': `All = p+u+g+s+sha256\n${rules}` };
  await cluster.apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data });
  const config = { name: metadata.name, namespace, gracePeriod: 10 };
  await cluster.apply(fileIntegrity(name, { nodeSelector, config }));
}

suite('file integrity from end to end', { concurrency: true }, () => {
  test('installed, changed, made anew; provider native and aide, both API groups', async () => {
    await cluster.apply(`${releasedManifest}---${designManifest}`);
    for (const { fi, types } of cases) {
      const { lastResult } = await cluster.condition(fi, 'n1', 'Succeeded', types);
      assert.equal(lastResult.resultConfigMapName, undefined);
      await cluster.phase(fi, 'Active', types);
      const active = await cluster.configMap(fi);
      assert.match(active?.data?.[names.confKey] ?? '', /^\/hostroot\/etc Content$/m);
      assert.equal((await cluster.report(fi, 'n1'))?.summary?.pass, 1);
    }

    node.write('/etc/passwd', `${host['/etc/passwd']}eve::0:0::/:/bin/sh\n`);
    node.write('/usr/bin/evil', 'not there before\n');
    rmSync(node.at('/etc/hosts'));
    node.write('/etc/mtab', 'changes all the time\n');
    node.write('/var/log/messages', 'more\n');
    for (const one of cases) await seeFailed(one);
    for (const { fi, types } of cases) {
      const kind = `${types.nodeStatuses.plural}.${types.group}`;
      const table = await cluster.kubectl(['get', kind, '-n', namespace]);
      assert.match(table, new RegExp(`^${fi}-n1 +n1 +Failed`, 'm'));
    }

    for (const { fi, types } of cases) await cluster.annotate(fi, `${names.reinit}=`, types);
    for (const { fi, types } of cases) {
      const again = await cluster.condition(fi, 'n1', 'Succeeded', types);
      assert.deepEqual(again.results.map(({ condition }) => condition).toSorted(), ['Failed', 'Succeeded']);
      const integrity = await cluster.phase(fi, 'Active', types);
      assert.equal(integrity.metadata.annotations?.[names.reinit], undefined);
      assert.equal((await cluster.report(fi, 'n1'))?.summary?.fail, 0);
      const kept = readdirSync(node.directoryOf(integrity));
      assert.equal(kept.filter((name) => backup.test(name)).length, 1, kept.join());
    }
    const metrics = await cluster.operatorMetrics();
    assert.match(metrics, /^file_integrity_operator_reinit_total\{by="demand",node=""\} 2$/m);
    for (const { fi } of cases) assert.deepEqual(await cluster.temporary(fi), []);
  });

  deepTest('each node is compared with its own baseline', async () => {
    await create('named', '/srv/name All\n', {});
    const both = [node, second];
    for (const { name } of both) await cluster.condition('named', name, 'Succeeded');
    const { status } = await cluster.phase('named', 'Active');
    // One for each condition that a node has had.
    const reported = new Set(status?.nodeStatus?.map(({ nodeName }) => nodeName));
    assert.deepEqual([...reported], ['n1', 'n10']);
    for (const one of both) one.write('/srv/name', 'changed');
    for (const { name } of both) await cluster.failed('named', name, [0, 1, 0]);
  });

  test('accepted findings are in the baseline; rampart status shows each step', async () => {
    await create('meant', '/srv/meant All\n');
    await cluster.condition('meant', 'n1', 'Succeeded');
    const statusOf = async (): Promise<string> =>
      (await cluster.rampart('status', '--namespace', namespace)).stdout;
    assert.match(await statusOf(), /openshift-file-integrity\/meant +(Active|Initializing) +n1 +Succeeded/);
    node.write('/srv/meant/a', 'updated\n');
    node.write('/srv/meant/new', 'added\n');
    await cluster.failed('meant', 'n1', [1, 1, 0]);
    const failed = await statusOf();
    assert.match(failed, /openshift-file-integrity\/meant +\w+ +n1 +Failed .* 1 added, 1 changed/);
    assert.match(failed, /\/srv\/meant\/a changed \(.*sha256.*\)/);

    const some = ['integrity', 'accept', 'meant', '--path', '/srv/meant/a', '--reason', 'the update'];
    const accepted = await cluster.rampart(...some);
    assert.equal(accepted.code, 0, accepted.stdout + accepted.stderr);
    assert.match(accepted.stdout, /^n1: accepted \(1\); 1 finding is left$/m);
    await cluster.failed('meant', 'n1', [1, 0, 0]);
    await until('the event', async () =>
      (await cluster.notes('NodeIntegrityAccepted')).some((note) => note.includes('the update')),
    );
    const rest = await cluster.rampart(
      'integrity',
      'accept',
      'meant',
      '--node',
      'n1',
      '--reason',
      'all of it',
    );
    assert.equal(rest.code, 0, rest.stdout + rest.stderr);
    const { metadata } = await cluster.condition('meant', 'n1', 'Succeeded');
    assert.deepEqual(
      Object.keys(metadata.annotations ?? {}).filter((name) => name.includes('request')),
      [],
    );
    const states = node
      .findings()
      .filter(({ path }) => path.startsWith('/srv/meant'))
      .map(({ path, state }) => `${path} ${state}`);
    // A file that is written during a comparison is reported more than once.
    assert.deepEqual([...new Set(states)].toSorted(), [
      '/srv/meant/a accepted',
      '/srv/meant/a found',
      '/srv/meant/new accepted',
      '/srv/meant/new found',
    ]);
    // The accepted state is the one that is compared.
    node.write('/srv/meant/a', 'a\n');
    const { findings = [] } = await cluster.failed('meant', 'n1', [0, 1, 0]);
    assert.deepEqual(
      findings.map(({ path, change }) => [path, change]),
      [['/srv/meant/a', 'changed']],
    );
  });

  deepTest('10,000 new files with long names: the log is compressed, and whole', async () => {
    mkdirSync(node.at('/srv/many'), { recursive: true });
    // A configuration that selects nothing is an error.
    writeFileSync(node.at('/srv/many/first'), '');
    const integrities = { 'many-native': 'native', 'many-aide': 'aide' } as const;
    const conf = { 'aide.conf': 'All = p+u+g+s+sha256\n/srv/many f All\n' };
    const metadata = { name: 'srv', namespace };
    await cluster.apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: conf });
    for (const [name, provider] of Object.entries(integrities)) {
      const spec = { provider, nodeSelector: onFirst, config: { name: 'srv', namespace, gracePeriod: 10 } };
      await cluster.apply(fileIntegrity(name, spec));
    }
    for (const fi of Object.keys(integrities)) await cluster.condition(fi, 'n1', 'Succeeded');
    const long = (at: number): string => `${String(at).padStart(5, '0')}-${'long'.repeat(50)}`;
    for (let at = 0; at < 10_000; at++) writeFileSync(node.at(`/srv/many/${long(at)}`), '');
    for (const fi of Object.keys(integrities)) {
      const status = await cluster.failed(fi, 'n1', [10_000, 0, 0]);
      // As many as there is room for.
      const { length } = status.findings ?? [];
      assert.ok(length >= 100 && length <= 200, `${length} findings`);
      assert.equal(length + (status.omittedFindings ?? 0), 10_000);
      const kept = await cluster.kept(fi, 'n1');
      assert.equal(kept?.metadata.annotations?.[names.compressed], '');
      const text = gunzipSync(Buffer.from(kept?.data?.[names.logKey] ?? '', 'base64')).toString();
      assert.ok(text.length > 2 * 1024 * 1024);
      // Not searched for one by one: ten thousand times two megabytes are seconds.
      const logged = new Set(Array.from(text.matchAll(/\/hostroot\/srv\/many\/(.*)\n/g), ([, name]) => name));
      for (let at = 0; at < 10_000; at++) {
        assert.ok(logged.has(long(at)), `${long(at)} is not in the log of ${fi}`);
      }
      const report = await cluster.report(fi, 'n1');
      assert.equal(report?.summary?.fail, 10_000);
      assert.ok((report?.results?.length ?? 0) <= 500);
    }
  });
});
