// Behaviour that users of Kive rely on: the expectations of its own tests, and those of Koney, which writes
// policies and reads alerts.
import assert from 'node:assert/strict';
import { statSync, writeFileSync } from 'node:fs';
import { before, suite, test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import type { KiveAlert } from '../../../guards/file-access/alert/alert.ts';
import { kiveDataNamespace, kivePolicyType } from '../../../guards/file-access/api.ts';
import { Receiver } from '../../../guards/file-access/delivery/receiver.fixture.ts';
import { type GuardedLab, summary } from '../guarded-lab.fixture.ts';
import type { LabContainer } from '../lab.ts';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';

/** Their longest waits: from a policy and a running pod to KiveData, from an access to its alert. */
const DATA_MS = 3000;
const ALERT_MS = 10_000;

/** Each key of an object with those below it, in their order. */
function keysOf(value: object, prefix = ''): string[] {
  return Object.entries(value).flatMap(([key, inner]: [string, unknown]) => [
    prefix + key,
    ...(typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? keysOf(inner, `${prefix}${key}.`)
      : []),
  ]);
}

/** Kive's: all always present. */
const kiveKeys = `kive-alert-version kive-policy-name timestamp
  metadata metadata.path metadata.inode metadata.mask metadata.kernel-id metadata.callback custom-metadata
  pod pod.name pod.namespace pod.ip pod.container pod.container.id pod.container.name node node.name
  process process.pid process.tgid process.uid process.gid process.binary process.cwd process.arguments`.split(
  /\s+/,
);

export function expectationCases(lab: () => GuardedLab): void {
  suite('expectations of users of Kive', () => {
    let guarded: GuardedLab;
    before(() => {
      guarded = lab();
    });

    /** Reads a file until its alert, as their tests do. */
    async function alertOf(container: LabContainer, path: string): Promise<KiveAlert> {
      const id = `containerd://${container.id}`;
      const from = guarded.standalone.alerts().length;
      await guarded.sh(container, `cat ${path}`);
      return await until(
        `an alert of ${path}`,
        () =>
          guarded.standalone
            .alerts()
            .slice(from)
            .find(({ pod, metadata }) => pod.container.id === id && metadata.path === path),
        ALERT_MS,
      );
    }

    test('a policy for a pod that runs: KiveData, a file that is created, an alert; none when it is deleted', async () => {
      const { container } = await guarded.run({ name: 'first', labels: { 'security-level': 'high' } });
      const trap = { path: '/secret.txt', create: true, mode: 444, metadata: { severity: 'critical' } };
      await guarded.setPolicy('first', [
        { ...trap, matchAny: [{ matchLabels: { 'security-level': 'high' } }] },
      ]);
      await guarded.dataCount('first', 1, DATA_MS);
      const alert = await alertOf(container, '/secret.txt');
      assert.equal(summary(alert), 'first default/first/nginx /secret.txt /bin/busybox 36');
      assert.equal(statSync(guarded.pathIn(container, '/secret.txt')).mode & 0o7777, 0o444);
      await guarded.deletePolicy('first');
      assert.deepEqual(await guarded.data('first'), []);
      assert.deepEqual(await guarded.alertsOf(() => guarded.sh(container, 'cat /secret.txt')), []);
    });

    test('two matches for two pods are two KiveData; pods that come later are covered too', async () => {
      const one = await guarded.run({ name: 'two-1', namespace: 'two' });
      const two = await guarded.run({ name: 'two-2', namespace: 'two' });
      await guarded.setPolicy('two', [
        { path: '/etc/shadow', matchAny: [{ pod: 'two-1' }, { pod: 'two-2' }, { pod: 'two-3' }] },
      ]);
      const data = await guarded.dataCount('two', 2, DATA_MS);
      const pods = (): string[] =>
        data.map(({ metadata }) => metadata.annotations?.['pod-name'] ?? '').sort();
      assert.deepEqual(pods(), ['two-1', 'two-2']);
      const three = await guarded.run({ name: 'two-3', namespace: 'two' });
      await guarded.dataCount('two', 3, DATA_MS);
      for (const { container, pod } of [one, two, three]) {
        assert.equal((await alertOf(container, '/etc/shadow')).pod.name, pod.name);
      }
      await guarded.lab.removePod(three.pod);
      await guarded.dataCount('two', 2);
      await guarded.deletePolicy('two');
    });

    deepTest('two paths are two KiveData', async () => {
      const { container } = await guarded.run({ name: 'paths' });
      const matchAny = [{ pod: 'paths', namespace: 'default' }];
      await guarded.setPolicy('paths', [
        { path: '/etc/shadow', matchAny },
        { path: '/etc/passwd', matchAny },
      ]);
      const data = await guarded.dataCount('paths', 2, DATA_MS);
      assert.equal(new Set(data.map(({ metadata }) => metadata.labels?.['trap-id'])).size, 2);
      for (const path of ['/etc/shadow', '/etc/passwd']) await alertOf(container, path);
      await guarded.deletePolicy('paths');
    });

    test('a file in a volume that is mounted, and one that is mounted itself', async () => {
      const hostPath = guarded.hostDirectory('token');
      writeFileSync(`${hostPath}/service_token`, 'someverysecrettoken');
      const mounts = [
        { containerPath: '/run/secrets/koney', hostPath, readonly: true },
        { containerPath: '/etc/service_token', hostPath: `${hostPath}/service_token`, readonly: true },
      ];
      const { container } = await guarded.run({ name: 'volume', containers: [{ name: 'main', mounts }] });
      const matchAny = [{ pod: 'volume' }];
      const paths = ['/run/secrets/koney/service_token', '/etc/service_token'];
      for (const [index, path] of paths.entries()) {
        await guarded.setPolicy(`volume-${index}`, [{ path, matchAny }]);
        await guarded.dataCount(`volume-${index}`, 1, DATA_MS);
        assert.equal(
          (await alertOf(container, path)).metadata.inode,
          statSync(hostPath + '/service_token').ino,
        );
        await guarded.deletePolicy(`volume-${index}`);
      }
    });

    test('KiveData has the labels, annotations, finalizers and fields that Kive gives it', async () => {
      const { pod, container } = await guarded.run({ name: 'shape', namespace: 'shapes' });
      const metadata = { severity: 'critical' };
      await guarded.setPolicy('shape', [{ path: '/etc/shadow', metadata, matchAny: [{ pod: 'shape' }] }]);
      const [data] = await guarded.dataCount('shape', 1, DATA_MS);
      assert.ok(data);
      const { annotations = {}, labels = {}, finalizers, namespace, name } = data.metadata;
      assert.equal(namespace, 'kivebpf-system');
      assert.match(name ?? '', /^kive-data-shape-shapes-/);
      assert.deepEqual(finalizers, ['kivedata.kivebpf.san7o.github.io/finalizer']);
      const kernelId = (await guarded.sh(container, 'cat /proc/sys/kernel/random/boot_id')).trim();
      const { 'trap-id': trapId = '', ...otherLabels } = labels;
      assert.match(trapId, /^[0-9a-f]{63}$/);
      const nodeName = guarded.standalone.kubectl('get', 'nodes', '-o', 'name').stdout.replace('node/', '');
      assert.deepEqual(otherLabels, { 'kernel-id': kernelId, 'kivebpf.san7o.github.io/node': nodeName });
      const theirs = Object.entries(annotations).filter(([key]) => !key.includes('/'));
      assert.deepEqual(Object.fromEntries(theirs), {
        'kive-alert-version': 'v1',
        'kive-policy-name': 'shape',
        callback: '',
        'pod-name': 'shape',
        namespace: 'shapes',
        'pod-ip': pod.ip,
        path: '/etc/shadow',
        'container-id': `containerd://${container.id}`,
        'container-name': 'nginx',
        'node-name': nodeName,
      });
      const { ino } = statSync(guarded.pathIn(container, '/etc/shadow'));
      const device = Number(
        await guarded.sh(
          container,
          'awk \'$5 == "/" { print $3 }\' /proc/self/mountinfo | { IFS=: read a b; echo $((a << 20 | b)); }',
        ),
      );
      assert.deepEqual(data.spec, { inodeNo: ino, devId: device, kernelId, metadata });
      assert.deepEqual((await guarded.policy('shape')).metadata.finalizers, [
        'kivepolicy.kivebpf.san7o.github.io/finalizer',
      ]);
      await guarded.deletePolicy('shape');
    });

    test('all keys of an alert, also without a value; an unknown version is v1', async () => {
      const { pod, container } = await guarded.run({ name: 'keys' });
      const traps = [{ path: '/etc/shadow', matchAny: [{ pod: 'keys' }] }];
      for (const [alertVersion, said] of [
        ['v1', 'v1'],
        ['v2alpha1', 'v2alpha1'],
        ['v7', 'v1'],
        ['', 'v1'],
      ] as const) {
        const policy = {
          metadata: { name: 'keys', namespace: kiveDataNamespace },
          spec: { alertVersion, traps },
        };
        await guarded.client.apply(kivePolicyType, policy, { fieldManager: 'test', force: true });
        await guarded.dataCount('keys', 1, DATA_MS);
        await until(async () => {
          const [data] = await guarded.data('keys');
          return data?.metadata.annotations?.['kive-alert-version'] === said;
        });
        const alert = await alertOf(container, '/etc/shadow');
        assert.equal(alert['kive-alert-version'], said);
        const keys = keysOf(alert);
        assert.deepEqual(
          kiveKeys.filter((key) => !keys.includes(key)),
          [],
        );
        assert.deepEqual(
          { callback: alert.metadata.callback, custom: alert['custom-metadata'], ip: alert.pod.ip },
          { callback: '', custom: {}, ip: pod.ip },
        );
        assert.match(alert.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
      }
      await guarded.deletePolicy('keys');
    });

    test('a policy as Koney makes it: the file comes later, its forwarder gets what stdout has and answers 202', async () => {
      await using receiver = await Receiver.start();
      const { container } = await guarded.run({
        name: 'koney',
        namespace: 'koney-demo',
        labels: { 'demo.koney/honeytoken': 'true' },
        containers: [{ name: 'nginx' }, { name: 'sidecar' }],
      });
      const path = '/run/secrets/koney/service_token';
      const owner = {
        apiVersion: 'research.dynatrace.com/v1alpha1',
        kind: 'DeceptionPolicy',
        name: 'decoys',
      };
      const policy = {
        metadata: {
          name: 'koney-tracing-policy-1',
          namespace: kiveDataNamespace,
          labels: { 'koney/deception-policy': 'decoys' },
          // A kind that this API does not have: its owner must be assumed to exist.
          ownerReferences: [
            {
              ...owner,
              uid: 'a3c1d4f6-0000-4000-8000-000000000000',
              blockOwnerDeletion: true,
              controller: true,
            },
          ],
        },
        spec: {
          traps: [
            {
              path,
              callback: receiver.url('/handlers/kive?token=of-the-receiver'),
              metadata: { 'koney-deception-policy-name': 'decoys' },
              matchAny: [
                { containerName: 'nginx', matchLabels: { 'demo.koney/honeytoken': 'true' } },
                { namespace: 'koney-other', containerName: '', matchLabels: {} },
              ],
            },
          ],
        },
      };
      await guarded.client.create(kivePolicyType, policy);
      assert.deepEqual(await guarded.data('koney-tracing-policy-1'), []);
      await guarded.sh(container, `mkdir -p /run/secrets/koney && echo someverysecrettoken > ${path}`);
      await guarded.dataCount('koney-tracing-policy-1', 1, DATA_MS);
      const alerts = await guarded.alertsOf(async () => await guarded.sh(container, `cat ${path}`));
      assert.equal(alerts.length, 1);
      // Where the agent sees the new file before the text is written to it, that write is an alert too.
      const lines = guarded.standalone.stdout.split('\n').filter((text) => text.includes('koney-demo'));
      assert.match(lines.at(-1) ?? '', /\(read\)/);
      await until('the forwarder to answer', () => receiver.taken.length === lines.length, ALERT_MS);
      assert.deepEqual(
        receiver.received.map(({ line: body, path: url, headers }) => [body, url, headers['content-type']]),
        lines.map((line) => [line, '/handlers/kive?token=of-the-receiver', 'application/json']),
      );
      // All that it indexes.
      const { 'custom-metadata': custom, metadata, pod, node, process, timestamp } = alerts[0] as KiveAlert;
      assert.equal(custom['koney-deception-policy-name'], 'decoys');
      assert.equal(metadata.path, path);
      assert.deepEqual(
        [pod.name, pod.namespace, pod.container.name, pod.container.id],
        ['koney', 'koney-demo', 'nginx', `containerd://${container.id}`],
      );
      assert.deepEqual(
        [process.uid, process.cwd, process.binary, process.arguments],
        [0, '/', '/bin/busybox', path],
      );
      assert.ok(process.pid > 0 && node.name !== '' && Date.parse(timestamp) > 0);
      await guarded.deletePolicy('koney-tracing-policy-1');
    });
  });
}
