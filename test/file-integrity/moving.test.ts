// From the File Integrity Operator to Rampart on a running cluster, following docs/moving.md.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { KubeObject } from '../../lib/kube/object/object.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { type FileIntegrity, names, released } from '../../guards/file-integrity/api.ts';
import { fileIntegrity, IntegrityCluster, namespace } from './integrity-cluster.fixture.ts';
import {
  configMap,
  releasedDefinitions,
  releasedOperator,
  releasedParts,
  releasedResults,
} from './released.fixture.ts';

const node = 'worker-0';
const probed = '2024-01-02T00:00:00Z';
const all = ['workers', 'asked', 'held'];
const worker = { 'node-role.kubernetes.io/worker': '' };
// As a user writes it: FIO puts the host's root before the paths, and its own database and log into the definitions.
const mine = `@@define DBDIR /var/lib/aide
@@define LOGDIR /var/log/aide
database=file:@@{DBDIR}/aide.db.gz
database_out=file:@@{DBDIR}/aide.db.gz
gzip_dbout=yes
verbose=5
report_url=file:@@{LOGDIR}/aide.log
CONTENT_EX = sha512+ftype+p+u+g+n+acl+selinux+xattrs
!/etc/mine/volatile
/etc/mine CONTENT_EX
`;
const prepared = mine
  .replace('/var/lib/aide', '/hostroot/etc/kubernetes')
  .replace('/var/log/aide', '/hostroot/etc/kubernetes')
  .replaceAll('/etc/mine', '/hostroot/etc/mine');

/** The expected object after ours are applied: the same, with the only field of ours that has a default. */
function asOurs({ spec, metadata, status }: FileIntegrity): object {
  return {
    spec: { ...spec, provider: 'native' },
    status,
    uid: metadata.uid,
    annotations: metadata.annotations,
  };
}

const shown = ({ spec, metadata: { uid, annotations }, status }: FileIntegrity): object => ({
  spec,
  status,
  uid,
  annotations,
});

suite('a cluster with the File Integrity Operator', () => {
  test('goes over by applying ours: its objects stay, its nodes are guarded, and nothing of it is lost', async () => {
    const before = new Map<string, FileIntegrity>();
    let users: object | undefined;
    const install = async (old: IntegrityCluster): Promise<void> => {
      await old.apply(items(releasedDefinitions));
      await old.apply({ apiVersion: 'v1', kind: 'Node', metadata: { name: node, labels: worker } });
      const config = { name: 'mine', namespace, key: 'mine.conf', gracePeriod: 10, maxBackups: 3 };
      await old.apply(
        items([
          ...releasedOperator,
          configMap('mine', { 'mine.conf': mine }),
          fileIntegrity('workers', { config, nodeSelector: worker, debug: true }) as KubeObject,
          fileIntegrity('asked', { config, nodeSelector: worker }) as KubeObject,
          fileIntegrity('held', { config: { gracePeriod: 10 } }) as KubeObject,
        ]),
      );
      for (const name of all) {
        const made = await old.integrity(name);
        await old.apply(items(releasedParts(made, prepared)));
        const target = { namespace, name, subresource: 'status' };
        await old.client.patch(released.integrities, target, {
          type: 'merge',
          body: { status: { phase: 'Active' } },
        });
      }
      await old.apply(items(releasedResults(await old.integrity('workers'), node, probed)));
      await old.annotate('asked', `${names.reinit}=${node}`);
      await old.annotate('held', `${names.holdoff}=`);
      for (const name of all) before.set(name, await old.integrity(name));
      users = await old.configMap('mine');
      // Step 2.
      await old.kubectl(['delete', '-n', namespace, 'deployment/file-integrity-operator']);
      await old.kubectl(['delete', '-n', namespace, 'daemonset', '-l', names.ownerLabel]);
    };
    await using cluster = await IntegrityCluster.start({ before: install });

    assert.equal(before.size, all.length);
    for (const [name, object] of before) {
      assert.deepEqual(shown(await cluster.integrity(name)), asOurs(object), name);
    }
    const stored = await cluster.status('workers', node);
    assert.deepEqual(
      stored?.results?.map(({ condition }) => condition),
      ['Succeeded', 'Failed'],
    );
    assert.equal(stored?.lastResult?.filesChanged, 1);
    const daemons = await cluster.kubectl(['get', 'daemonset,deployment', '-n', namespace, '-o', 'name']);
    assert.equal(daemons, '');

    // The operator first: it takes the result that FIO has left, before any agent is there.
    cluster.startOperator();
    await until('the result that was left is taken', async () => (await cluster.temporary()).length === 0);
    const left = await cluster.failed('workers', node, [0, 1, 0]);
    assert.ok(Date.parse(left.lastResult.lastProbeTime) > Date.parse(probed));
    assert.match(
      (await cluster.kept('workers', node))?.data?.['integritylog'] ?? '',
      /\/hostroot\/etc\/older/,
    );

    const guarded = await cluster.addNode(node, { labels: worker });
    guarded.write('/etc/mine/a', 'a\n');
    guarded.write('/etc/mine/volatile/b', 'b\n');
    guarded.write('/etc/other', 'other\n');
    guarded.agent.start();
    const first = await cluster.condition('workers', node, 'Succeeded');
    assert.ok(first.lastResult.lastProbeTime >= left.lastResult.lastProbeTime);
    assert.deepEqual(first.results, [left.lastResult, first.lastResult]);
    await until('the FileIntegrity says so', async () => {
      const { status } = await cluster.integrity('workers');
      const last = status?.nodeStatus?.at(-1);
      return status?.phase === 'Active' && last?.nodeName === node && last.condition === 'Succeeded';
    });
    await cluster.condition('asked', node, 'Succeeded');
    assert.equal((await cluster.integrity('asked')).metadata.annotations?.[names.reinit], undefined);
    // The log of FIO stays until there is another one.
    assert.match(
      (await cluster.kept('workers', node))?.data?.['integritylog'] ?? '',
      /\/hostroot\/etc\/older/,
    );

    guarded.write('/etc/mine/a', 'changed\n');
    guarded.write('/etc/mine/volatile/b', 'changed\n');
    guarded.write('/etc/other', 'changed\n');
    const { findings = [] } = await cluster.failed('workers', node, [0, 1, 0]);
    assert.deepEqual(
      findings.map(({ path }) => path),
      ['/etc/mine/a'],
    );
    await until('the log is of now', async () => {
      const log = (await cluster.kept('workers', node))?.data?.['integritylog'] ?? '';
      return log.includes('/hostroot/etc/mine/a') && !log.includes('/hostroot/etc/older');
    });
    await cluster.annotate('workers', `${names.reinitOnFailed}=`);
    await cluster.condition('workers', node, 'Succeeded');

    // Held since before; it has not been looked at.
    assert.equal(await cluster.status('held', node), undefined);
    const { status } = await cluster.integrity('held');
    assert.ok(status?.conditions?.some((one) => one.type === 'Paused' && one.status === 'True'));
    await cluster.annotate('held', `${names.holdoff}-`);
    await cluster.condition('held', node, 'Succeeded');

    for (const [name, object] of before) {
      const { spec, metadata } = await cluster.integrity(name);
      assert.deepEqual(
        { ...spec, uid: metadata.uid },
        { ...object.spec, provider: 'native', uid: object.metadata.uid },
      );
    }
    assert.deepEqual(await cluster.configMap('mine'), users);
    for (const { metadata } of releasedOperator.slice(1))
      assert.ok(await cluster.configMap(metadata.name ?? ''));

    // FIO's references block the deletion in the foreground as long as what they are on is there.
    await cluster.kubectl([
      ...['delete', 'fileintegrity', ...all, '-n', namespace],
      ...['--cascade=foreground', '--timeout=60s'],
    ]);
    await until('what was made of them is gone', async () => {
      const gone = await Promise.all(
        all.flatMap((name) => [cluster.status(name, node), cluster.configMap(name)] as const),
      );
      return gone.every((object) => object === undefined);
    });
    assert.ok(await cluster.kept('workers', node), 'the record stays');
    assert.deepEqual(await cluster.configMap('mine'), users);
  });
});

function items(objects: readonly KubeObject[]): object {
  return { apiVersion: 'v1', kind: 'List', items: objects };
}
