// A user's configuration, and its processing, on the embedded API.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { configMaps, priorityClasses } from '../../../lib/kube/object/object.ts';
import { names } from '../api.ts';
import { createMetrics } from '../../../lib/telemetry/metrics.ts';
import { shareMetrics } from '../../../lib/kube/controller/shared-metrics.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { configurationId } from '../aide-conf/digest.ts';
import { defaultConf, effectiveConf } from './effective-conf.ts';
import { failed, succeeded, TestCluster, testNamespace } from './cluster.fixture.ts';

const good = 'database_in=file:/var/lib/aide/aide.db\nCheck = p+u+g+sha512\n/etc Check\n';
const converted =
  'database_in=file:/hostroot/etc/kubernetes/aide.db.gz\nCheck = p+u+g+sha512\n/hostroot/etc Check\n';
const bad = good.replace('/etc Check', '/etc Chekc');

suite('the configuration of a user', () => {
  test('with another one, it is initializing until each node has a result of it, whatever the last one was', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1');
    await cluster.createNamespace('elsewhere');
    cluster.startOperator();
    await cluster.createConfigMap('mine', { conf: good }, 'elsewhere');
    await cluster.createIntegrity('example', {
      config: { name: 'mine', namespace: 'elsewhere', key: 'conf' },
    });
    const now = async (): Promise<string> => {
      const { data } = await until('the configuration', () => cluster.configMap('example'));
      return configurationId('native', data?.['aide.conf'] ?? '');
    };
    await cluster.phase('example', 'Initializing');
    const first = await now();
    await cluster.report('example', 'n1', failed(1, 1, 0), { configuration: first });
    await cluster.phase('example', 'Active');
    await cluster.client.patch(
      configMaps,
      { namespace: 'elsewhere', name: 'mine' },
      { type: 'merge', body: { data: { conf: `${good}/usr p\n` } } },
    );
    const { status } = await cluster.phase('example', 'Initializing');
    assert.equal(
      status?.conditions?.find(({ type }) => type === 'Complete')?.message,
      'A new baseline is being made: n1.',
    );
    // Results of events in the meantime belong to the previous configuration.
    await cluster.report('example', 'n1', failed(1, 2, 0), { configuration: first });
    assert.equal((await cluster.integrity('example')).status?.phase, 'Initializing');
    await cluster.report('example', 'n1', succeeded, { configuration: await now() });
    await cluster.phase('example', 'Active');
    assert.deepEqual(
      (await cluster.notes('FileIntegrityStatus')).filter((note) => /^[A-Z][a-z]+$/.test(note)).sort(),
      ['Active', 'Active', 'Initializing', 'Initializing'],
    );
  });

  test('missing, bad, mended: each is seen at once, and the last good one stays in use', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1');
    await cluster.createNamespace('elsewhere');
    const metrics = await createMetrics();
    cluster.startOperator({ metrics: shareMetrics(metrics) });
    const config = { name: 'mine', namespace: 'elsewhere', key: 'conf' };
    await cluster.createIntegrity('example', { config });
    const message = async (): Promise<string> => {
      const { status } = await cluster.integrity('example');
      return status?.conditions?.find(({ type }) => type === 'Configured')?.message ?? '';
    };
    await cluster.phase('example', 'Initializing');
    assert.equal(
      await message(),
      'ConfigMap elsewhere/mine does not exist. Create it, or correct spec.config.name and spec.config.namespace. ' +
        'Until then the default configuration is used.',
    );
    const byDefault = effectiveConf('', defaultConf, 'native');
    assert.ok(byDefault.kind === 'conf');
    assert.equal((await cluster.configMap('example'))?.data?.['aide.conf'], byDefault.text);
    await until('an event', async () =>
      (await cluster.notes('FileIntegrityStatus')).some((note) => note.includes('mine does not exist')),
    );
    await cluster.createConfigMap('mine', { 'aide.conf': good }, 'elsewhere');
    await until('the key is missing', async () => (await message()).includes('It has aide.conf'));
    const write = (text: string): Promise<unknown> =>
      cluster.client.patch(
        configMaps,
        { namespace: 'elsewhere', name: 'mine' },
        { type: 'merge', body: { data: { conf: text } } },
      );
    await cluster.phase('example', 'Error');
    await write(good);
    await until(
      'the configuration',
      async () => (await cluster.configMap('example'))?.data?.['aide.conf'] === converted,
    );
    await cluster.phase('example', 'Initializing');
    await cluster.report('example', 'n1', succeeded);
    await cluster.phase('example', 'Active');
    await write(bad);
    await cluster.phase('example', 'Error');
    assert.match(
      await message(),
      /^cannot use the configuration ConfigMap elsewhere\/mine, conf: .*:3:.*Chekc/,
    );
    assert.match(await message(), /the previous configuration stays in use\.$/);
    assert.equal((await cluster.configMap('example'))?.data?.['aide.conf'], converted);
    await until('an event', async () =>
      (await cluster.notes('FileIntegrityStatus')).some(
        (note) => note.startsWith('Error:') && note.includes('Chekc'),
      ),
    );
    await write(good.replace('sha512', 'sha256'));
    await cluster.phase('example', 'Active');
    assert.equal(
      (await cluster.configMap('example'))?.data?.['aide.conf'],
      converted.replace('sha512', 'sha256'),
    );
    const text = metrics.registry.metrics();
    assert.match(text, /^file_integrity_operator_reinit_total\{by="config",node=""\} 2$/m);
    assert.match(text, /^file_integrity_operator_phase_total\{phase="Error"\} 2$/m);
    assert.match(text, /^file_integrity_operator_error_total\{error="ConfigurationInvalid"\} 1$/m);
    assert.match(text, /^file_integrity_operator_node_failed\{node="n1"\} 0$/m);
    // Gone, and the default again.
    await cluster.client.delete(configMaps, { namespace: 'elsewhere', name: 'mine' });
    await until('it is missing', async () =>
      /does not exist.*the previous configuration stays in use\.$/.test(await message()),
    );
    assert.equal((await cluster.integrity('example')).status?.phase, 'Active');
  });

  test('the name of no PriorityClass is cleared, with an event; one that is there stays', async () => {
    await using cluster = await TestCluster.start();
    await cluster.client.create(priorityClasses, { metadata: { name: 'there' }, value: 10 });
    cluster.startOperator();
    for (const name of ['there', 'missing', 'system-node-critical'])
      await cluster.createIntegrity(name, { priorityClassName: name });
    await until('it is cleared', async () => {
      const { spec } = await cluster.integrity('missing');
      return spec.priorityClassName === undefined;
    });
    await until('an event', async () =>
      (await cluster.notes('FileIntegrityStatus')).some((note) =>
        note.startsWith('there is no PriorityClass "missing"'),
      ),
    );
    for (const name of ['there', 'system-node-critical']) {
      await until(`${name} is seen`, async () => (await cluster.integrity(name)).status?.phase);
      assert.equal((await cluster.integrity(name)).spec.priorityClassName, name);
    }
  });

  test('foreign edits of the active one are undone; a name in use by others is reported', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1');
    cluster.startOperator();
    await cluster.createConfigMap('mine', { 'aide.conf': good });
    await cluster.createIntegrity('example', { config: { name: 'mine', namespace: testNamespace } });
    await until('the configuration', () => cluster.configMap('example'));
    const target = { namespace: testNamespace, name: 'example' };
    await cluster.client.patch(configMaps, target, { type: 'merge', body: { data: { 'aide.conf': '' } } });
    const isRight = async (): Promise<boolean> =>
      (await cluster.configMap('example'))?.data?.['aide.conf'] === converted;
    await until('it is right', isRight);
    await cluster.client.delete(configMaps, target);
    await until('it is there', isRight);

    await cluster.createIntegrity('mine', { config: { name: 'mine' } });
    const own = await cluster.phase('mine', 'Error');
    assert.match(own.status?.conditions?.[0]?.message ?? '', /holds the converted configuration/);
    await cluster.createConfigMap('foreign', { mine: 'x' });
    await cluster.createIntegrity('foreign');
    const taken = await cluster.phase('foreign', 'Error');
    assert.equal(taken.status?.conditions?.[0]?.reason, 'NameTaken');
    assert.deepEqual((await cluster.configMap('foreign'))?.data, { mine: 'x' });
    // It is seen when the name is free.
    await cluster.client.delete(configMaps, { namespace: testNamespace, name: 'foreign' });
    await cluster.phase('foreign', 'Initializing');
    assert.match((await cluster.configMap('foreign'))?.data?.['aide.conf'] ?? '', /hostroot/);
  });

  test('the active one is ours without its label too, and gets it again', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1');
    cluster.startOperator();
    await cluster.createIntegrity('example');
    await cluster.phase('example', 'Initializing');
    const labels = { [names.aideConfLabel]: null };
    const target = { namespace: testNamespace, name: 'example' };
    await cluster.client.patch(configMaps, target, { type: 'merge', body: { metadata: { labels } } });
    await until(
      'the label',
      async () => (await cluster.configMap('example'))?.metadata.labels?.[names.aideConfLabel] === '',
    );
    await cluster.report('example', 'n1', succeeded);
    await cluster.phase('example', 'Active');
  });
});
