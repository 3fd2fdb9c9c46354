// Findings by OTLP, as a user of a single machine has them: a real receiver, and kill -9. No container runtime is needed.
import assert from 'node:assert/strict';
import { mkdirSync, rmSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';

import { OtlpReceiver } from '../../lib/otlp/receiver.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { Standalone } from './standalone.fixture.ts';
import { deepTest } from '../../lib/testing/depth.fixture.ts';

const manifest = `
apiVersion: v1
kind: ConfigMap
metadata: { name: conf, namespace: default }
data:
  aide.conf: |
    /etc p+s+sha256
---
apiVersion: fileintegrity.openshift.io/v1alpha1
kind: FileIntegrity
metadata: { name: machine, namespace: default }
spec:
  config: { name: conf, namespace: default, key: aide.conf, gracePeriod: 10 }
`;

suite('findings by OTLP', () => {
  let one: Standalone;
  let url: URL;
  const start = (): Promise<void> =>
    one.start(
      ...['-f', one.at('integrity.yaml'), '--host-root', one.at('host'), '--node-name', 'here'],
      ...['--cri-socket', one.at('none'), '--guards', 'file-integrity', '--metrics', '127.0.0.1:0'],
      ...['--otlp-endpoint', url.origin],
    );
  const metric = async (name: string): Promise<number> => {
    const [, address = ''] = /metrics on (\S+\/metrics)/.exec(one.stderr) ?? [];
    const text = await (await fetch(address)).text();
    return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
  };
  before(async () => {
    one = new Standalone();
    await using receiver = await OtlpReceiver.start();
    ({ url } = receiver);
    mkdirSync(one.at('host/etc'), { recursive: true });
    for (const name of ['passwd', 'group', 'hosts']) one.write(`host/etc/${name}`, 'root\n');
    one.write('integrity.yaml', manifest);
  });
  after(() => one[Symbol.asyncDispose]());

  deepTest(
    'without a receiver they wait, and outlive kill -9; then they arrive, once, by the names of OCSF',
    async () => {
      await start();
      await one.untilSaid(/findings are sent by OTLP/);
      await until('the baseline', () => {
        const { stdout } = one.kubectl('get', 'fileintegrity', 'machine', '-o', 'jsonpath={.status.phase}');
        return stdout === 'Active';
      });
      rmSync(one.at('host/etc/group'));
      await one.until(() => /"verdict":"removed"/.test(one.stdout));
      await until('it waits', async () => (await metric('rampart_otlp_queue_findings')) === 1);
      assert.ok((await metric('rampart_otlp_retried_total')) > 0);
      await one.stop('SIGKILL');

      await using receiver = await OtlpReceiver.start({ port: Number(url.port) });
      await start();
      await until('it arrives', () => receiver.taken.length > 0);
      one.write('host/etc/hosts', 'eve\n');
      await until('the next one', () => receiver.taken.some((body) => body.includes('/etc/hosts')));
      const records = receiver.received.flatMap((request) => request.records);
      // Findings that were reported and not yet recorded when it was killed may be reported again: as
      // findings of their own.
      assert.equal(new Set(records.map(({ values }) => values['log.record.uid'])).size, records.length);
      const [first] = records;
      assert.match(first?.body.stringValue ?? '', /\/etc\/group/);
      assert.equal(first?.severityText, 'high');
      assert.equal(first.values['class_uid'], 1001);
      assert.equal(first.values['activity_name'], 'Delete');
      assert.equal(first.values['file.path'], '/etc/group');
      assert.equal(first.values['metadata.version'], '1.8.0');
      assert.equal(first.values['policy.uid'], 'default/machine');
      assert.equal(records.at(-1)?.values['file.path'], '/etc/hosts');
      const [{ resource, path } = assert.fail()] = receiver.received;
      assert.equal(path, '/v1/logs');
      assert.equal(resource['service.name'], 'rampart');
      assert.equal(resource['host.name'], 'here');
      assert.equal(resource['k8s.node.name'], 'here');
      assert.match(String(resource['service.version']), /^\d+\.\d+\.\d+$/);
      assert.deepEqual(receiver.faults, []);
      await until('all is counted', async () => (await metric('rampart_otlp_sent_total')) === records.length);
      assert.equal(await metric('rampart_otlp_recovered_total'), 1);
      assert.equal(await one.stop(), 0);
    },
  );

  test('settings that cannot be used are told at the start', async () => {
    await using other = new Standalone();
    await assert.rejects(other.start('--otlp-endpoint', 'collector:4318'), /--otlp-endpoint is not a URL/);
  });
});
