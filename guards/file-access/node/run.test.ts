import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { parse } from 'yaml';

import { until } from '../../../lib/testing/until.fixture.ts';
import { type KivePolicy, kivePolicyType } from '../api.ts';
import { alertOf, TestCluster } from './node.fixture.ts';
import { samplePolicy } from '../policy/policy.fixture.ts';

// A port without a listener.
const sample = samplePolicy.replace('http://my-callback.com/alerts', 'http://127.0.0.1:1/alerts');

suite('a node', { skip: sensorSkip }, () => {
  test('from the policy of the design document to the alert, and back', async () => {
    await using cluster = await TestCluster.start();
    cluster.startOperator();
    const queued: { callback: string; id: string; line: string }[] = [];
    const node = await cluster.startNode('kive-worker', {
      delivery: {
        enqueue: (callback, id, line) => queued.push({ callback, id, line: String(line) }) > 0,
      },
    });
    const [container] = await cluster.createPod(node, {
      name: 'nginx-pod',
      labels: { 'security-level': 'high' },
      ip: '192.168.0.3',
      containers: ['nginx'],
    });
    assert.ok(container);
    await cluster.client.create(kivePolicyType, parse(sample) as KivePolicy);
    const [data] = await cluster.dataCount(1);
    assert.ok(data);
    const file = join(container.root, 'secret.txt');
    const { ino, mode } = statSync(file);
    assert.equal(mode & 0o7777, 0o444);
    const { name, labels, annotations = {}, finalizers } = data.metadata;
    assert.match(name ?? '', /^kive-data-nginx-pod-default-[0-9a-f]{16}$/);
    assert.deepEqual(Object.keys(labels ?? {}), ['trap-id', 'kernel-id', 'kivebpf.san7o.github.io/node']);
    assert.match(labels?.['trap-id'] ?? '', /^[0-9a-f]{63}$/);
    assert.deepEqual(finalizers, ['kivedata.kivebpf.san7o.github.io/finalizer']);
    const {
      'kivebpf.san7o.github.io/file': _file,
      'kivebpf.san7o.github.io/pod-uid': _uid,
      ...rest
    } = annotations;
    assert.deepEqual(rest, {
      'kive-alert-version': 'v1',
      'kive-policy-name': 'kive-sample-policy',
      callback: 'http://127.0.0.1:1/alerts',
      'container-id': container.id,
      'container-name': 'nginx',
      namespace: 'default',
      'node-name': 'kive-worker',
      path: '/secret.txt',
      'pod-ip': '192.168.0.3',
      'pod-name': 'nginx-pod',
      'kivebpf.san7o.github.io/policy-namespace': 'kivebpf-system',
    });
    assert.equal(data.spec.inodeNo, ino);
    assert.equal(data.spec.kernelId, cluster.kernelId);
    assert.deepEqual(data.spec.metadata, { severity: 'critical' });

    const alert = await alertOf(node, file, () => true);
    assert.equal(alert['kive-policy-name'], 'kive-sample-policy');
    assert.deepEqual(alert.pod, {
      name: 'nginx-pod',
      namespace: 'default',
      ip: '192.168.0.3',
      container: { id: container.id, name: 'nginx' },
    });
    assert.deepEqual(alert.node, { name: 'kive-worker' });
    assert.deepEqual(alert['custom-metadata'], { severity: 'critical' });
    assert.equal(alert.metadata.path, '/secret.txt');
    assert.equal(alert.metadata.mask, 36);
    assert.match(alert.process.binary, /\/cat$/);
    assert.equal(alert.process.arguments, file);
    assert.equal(alert.process.cwd, process.cwd());
    assert.equal(queued.length, node.lines.length, 'the line is always written, with a callback too');
    assert.equal(queued[0]?.line, node.lines[0]);
    assert.equal(new Set(queued.map(({ id }) => id)).size, queued.length);

    const ready = await until('the policy is ready', async () => {
      const policy = await cluster.getPolicy('kive-sample-policy');
      return policy?.status?.conditions?.[0]?.status === 'True' && policy.status.lastAlertTime && policy;
    });
    assert.equal(ready.status?.conditions?.[0]?.reason, 'Watching');
    assert.equal(ready.status?.conditions?.[0]?.observedGeneration, ready.metadata.generation);
    assert.equal(ready.status?.matchedContainers, 1);
    assert.equal(ready.status?.watchedFiles, 1);
    assert.deepEqual(ready.metadata.finalizers, ['kivepolicy.kivebpf.san7o.github.io/finalizer']);
    await until('an event', async () => (await cluster.events()).some(({ reason }) => reason === 'Watching'));

    await cluster.deletePolicy('kive-sample-policy');
    await cluster.dataCount(0);
    await until(
      'the policy is gone',
      async () => (await cluster.getPolicy('kive-sample-policy')) === undefined,
    );
    assert.ok(existsSync(file), 'what was created stays');
    assert.equal(readFileSync(file, 'utf8'), '');
  });
});
