// The operator of file integrity on the embedded API. Agents are played: what they write is written here.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import { leases, nodes, roleBindings, secrets } from '../../../lib/kube/object/object.ts';
import { design, names, released } from '../api.ts';
import { agentRole, baselineKeySecret } from './caches.ts';
import { errored, failed, gone, succeeded, TestCluster, testNamespace } from './cluster.fixture.ts';
import { systemNamespace } from '../../../guard/guard.ts';
import { operatorLease } from '../../../guard/operator-lease.ts';
import { convertAideConf } from '../aide-conf/convert.ts';
import { defaultAideConf } from '../aide-conf/default-conf.ts';

suite('a FileIntegrity', () => {
  test('from its manifest to Active, Failed, and back', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1');
    await cluster.createNode('n2');
    cluster.startOperator();
    await cluster.createIntegrity('example');
    await until('the lease', () =>
      cluster.client.get(leases, { namespace: systemNamespace, name: operatorLease }),
    );
    await cluster.phase('example', 'Initializing');
    const active = await until('the configuration', () => cluster.configMap('example'));
    assert.equal(active.data?.['aide.conf'], convertAideConf('x', defaultAideConf).text);
    assert.equal(active.metadata.labels?.['file-integrity.openshift.io/aide-conf'], '');
    assert.equal(active.metadata.labels?.['file-integrity.openshift.io/owner'], 'example');
    await cluster.report('example', 'n1', succeeded);
    await cluster.report('example', 'n2', succeeded);
    const ready = await cluster.phase('example', 'Active');
    assert.deepEqual(
      ready.status?.nodeStatus?.map(({ nodeName, condition }) => [nodeName, condition]),
      [
        ['n1', 'Succeeded'],
        ['n2', 'Succeeded'],
      ],
    );
    const { sequence } = await cluster.report('example', 'n2', failed(1, 2, 3));
    const status = await cluster.status('example', 'n2');
    assert.equal(status?.nodeName, 'n2');
    assert.equal(status.sequence, sequence);
    assert.equal(status.findings?.[0]?.path, '/etc/passwd');
    assert.equal(status.detection?.events, 'sensor');
    assert.deepEqual(
      status.results.map(({ condition }) => condition),
      ['Succeeded', 'Failed'],
    );
    const { lastProbeTime: _when, ...last } = status.lastResult ?? { lastProbeTime: '' };
    assert.deepEqual(last, {
      condition: 'Failed',
      filesAdded: 1,
      filesChanged: 2,
      filesRemoved: 3,
      resultConfigMapName: 'aide-example-n2-failed',
      resultConfigMapNamespace: testNamespace,
    });
    const kept = await cluster.kept('example', 'n2');
    assert.equal(kept?.data?.['integritylog'], 'the log');
    assert.equal(kept.metadata.ownerReferences, undefined);
    assert.equal(kept.metadata.labels?.[names.resultLogLabel], '');
    assert.equal(kept.metadata.labels?.[names.logLabel], undefined);
    assert.equal(kept.metadata.annotations?.[names.filesChanged], '2');
    const reported = await until('it is in the status of the FileIntegrity', async () => {
      const { status: of } = await cluster.integrity('example');
      return of?.nodeStatus?.find(({ condition }) => condition === 'Failed');
    });
    assert.equal(reported.nodeName, 'n2');
    // A failure on a node is not an error of the FileIntegrity.
    assert.equal((await cluster.integrity('example')).status?.phase, 'Active');
    await cluster.report('example', 'n2', succeeded);
    assert.equal((await cluster.status('example', 'n2'))?.lastResult?.condition, 'Succeeded');
    assert.equal((await cluster.status('example', 'n2'))?.findings, undefined);
    // Until the next one takes its place, or the node goes.
    assert.ok(await cluster.kept('example', 'n2'));
    const notes = await until('events', async () => {
      const all = await cluster.notes('NodeIntegrityStatus');
      return all.length === 4 && all;
    });
    assert.deepEqual(notes.sort(), [
      'no changes to node n1',
      'no changes to node n2',
      'no changes to node n2',
      `node n2 has changed! a:1,c:2,r:3 log:${testNamespace}/aide-example-n2-failed`,
    ]);
    assert.deepEqual((await cluster.notes('FileIntegrityStatus')).sort(), ['Active', 'Initializing']);
  });

  test('an error of a node is its error, and a re-init mends it', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1');
    cluster.startOperator();
    await cluster.createIntegrity('example');
    await cluster.phase('example', 'Initializing');
    await cluster.report('example', 'n1', errored('the baseline is damaged. Make a new one'));
    await cluster.phase('example', 'Error');
    const status = await cluster.status('example', 'n1');
    assert.equal(status?.lastResult?.errorMessage, 'the baseline is damaged. Make a new one');
    await until('an event', async () =>
      (await cluster.notes('NodeIntegrityStatus')).includes(
        'node n1 has an error! the baseline is damaged. Make a new one',
      ),
    );
    await cluster.annotate('example', { [names.reinit]: '' });
    await cluster.phase('example', 'Initializing');
    const asked = await until('the request', async () => {
      const { annotations = {} } = (await cluster.status('example', 'n1'))?.metadata ?? {};
      return Object.entries(annotations).find(([key]) => key.includes('/request-'));
    });
    const request = JSON.parse(asked[1]) as { id: string; kind: string; by: string };
    assert.deepEqual({ ...request, id: '' }, { kind: 're-init', id: '', by: 'annotation' });
    await cluster.report('example', 'n1', succeeded, { doneRequests: [request.id] });
    await cluster.phase('example', 'Active');
    assert.equal((await cluster.status('example', 'n1'))?.metadata.annotations?.[asked[0]], undefined);
    assert.equal((await cluster.integrity('example')).metadata.annotations?.[names.reinit], undefined);
  });

  test('no node is Pending; a node that is added is Initializing, one that goes takes all of its own along', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('other', { role: 'other' });
    cluster.startOperator();
    await cluster.createIntegrity('example', { nodeSelector: { role: 'mine' } });
    await cluster.phase('example', 'Pending');
    await cluster.createNode('n1', { role: 'mine' });
    await cluster.phase('example', 'Initializing');
    await cluster.createNode('n2', { role: 'mine' });
    await cluster.report('example', 'n1', failed(1, 0, 0));
    await cluster.report('example', 'n2', failed(1, 0, 0));
    await cluster.phase('example', 'Active');
    await cluster.client.delete(nodes, { name: 'n1' });
    await until('all of n1 is gone', async () => {
      const left = [await cluster.status('example', 'n1'), await cluster.kept('example', 'n1')];
      return left.every((one) => one === undefined);
    });
    const body = { metadata: { labels: { role: 'other' } } };
    await cluster.client.patch(nodes, { name: 'n2' }, { type: 'merge', body });
    await until('all of n2 is gone', async () => {
      const left = [await cluster.status('example', 'n2'), await cluster.kept('example', 'n2')];
      return left.every((one) => one === undefined);
    });
    const { status } = await cluster.phase('example', 'Pending');
    assert.deepEqual(status?.nodeStatus, []);
    // The last result of its agent.
    await cluster.report('example', 'n2', succeeded);
    assert.equal(await cluster.status('example', 'n2'), undefined);
  });

  test('when it is deleted all goes with it, but the key and the logs of what was found', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1');
    const stop = cluster.startOperator();
    await cluster.createIntegrity('a');
    await cluster.createIntegrity('b');
    for (const name of ['a', 'b']) await cluster.report(name, 'n1', failed(0, 1, 0));
    const binding = { namespace: testNamespace, name: agentRole };
    await until('the rights of agents', () => gone(cluster.client.get(roleBindings, binding)));
    const secret = await cluster.client.get(secrets, { namespace: testNamespace, name: baselineKeySecret });
    assert.equal(Buffer.from(secret.data?.['hmac-sha256'] ?? '', 'base64').length, 32);
    const allGone = async (name: string): Promise<boolean> => {
      const left = [await cluster.status(name, 'n1'), await cluster.configMap(name)];
      return left.every((one) => one === undefined);
    };
    await cluster.client.delete(released.integrities, { namespace: testNamespace, name: 'a' });
    await until('all of a is gone', () => allGone('a'));
    assert.equal(await allGone('b'), false);
    const { subjects, roleRef } = await cluster.client.get(roleBindings, binding);
    assert.deepEqual(subjects, [
      { kind: 'ServiceAccount', name: 'rampart-agent', namespace: systemNamespace },
    ]);
    assert.equal(roleRef.name, 'rampart-agent-file-integrity');
    // Also for one that goes while no operator runs.
    await stop();
    await cluster.client.delete(released.integrities, { namespace: testNamespace, name: 'b' });
    cluster.startOperator();
    await until('all of b is gone', () => allGone('b'));
    await until(
      'the rights too',
      async () => (await gone(cluster.client.get(roleBindings, binding))) === undefined,
    );
    const left = await cluster.client.get(secrets, { namespace: testNamespace, name: baselineKeySecret });
    assert.deepEqual(left.data, secret.data);
    for (const name of ['a', 'b']) {
      const kept = await cluster.kept(name, 'n1');
      assert.equal(kept?.data?.['integritylog'], 'the log');
      assert.equal(kept.metadata.ownerReferences, undefined);
    }
  });

  test('of one name in both groups the older one is used, and the other says so', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1');
    await cluster.createIntegrity('same', {}, { types: design });
    await until('another second', () => Date.now() % 1000 < 100);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    await cluster.createIntegrity('same');
    cluster.startOperator();
    const refused = await cluster.phase('same', 'Error');
    assert.match(
      refused.status?.conditions?.[0]?.message ?? '',
      /older FileIntegrity .* in the group file-integrity\.openshift\.io/,
    );
    await cluster.phase('same', 'Initializing', design);
    await cluster.report('same', 'n1', succeeded);
    await cluster.phase('same', 'Active', design);
    assert.ok(await cluster.status('same', 'n1', design));
    assert.equal(await cluster.status('same', 'n1'), undefined);
    await cluster.client.delete(design.integrities, { namespace: testNamespace, name: 'same' });
    await cluster.phase('same', 'Initializing');
    await cluster.report('same', 'n1', succeeded);
    await cluster.phase('same', 'Active');
    assert.ok(await cluster.status('same', 'n1'));
    const active = await until('it has the configuration', () => cluster.configMap('same'));
    assert.equal(active.metadata.ownerReferences?.[0]?.apiVersion, `${released.group}/v1alpha1`);
  });
});
