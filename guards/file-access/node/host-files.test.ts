// Files of the node itself: found, reported and alerted. The real sensor, the embedded API.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { GivenContainers } from '../../../lib/cri/containers.fixture.ts';
import { kivePolicyType, type KiveTrap } from '../api.ts';
import { ourAnnotations } from '../kive-data.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { PolicyScope } from '../policy/policy-scope.ts';
import { alertOf, TestCluster } from './node.fixture.ts';

const onHost = (path: string): KiveTrap => ({ path, matchAny: [{ host: true }] });

/** A cluster, and a directory that is the root of its only node. */
async function startNode() {
  const stack = new AsyncDisposableStack();
  const host = stack.use(new TemporaryDirectory());
  const cluster = stack.use(await TestCluster.start());
  mkdirSync(host.at('etc'));
  writeFileSync(host.at('etc/token'), 'of the host');
  const node = await cluster.startNode('n1', { hostRoot: host.at('') });
  return { cluster, node, host, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

suite('a match of the node itself', { skip: sensorSkip }, () => {
  test('traps its file, and no file of that path in a container', async () => {
    await using scene = await startNode();
    const { cluster, node, host } = scene;
    await cluster.createNode('n1', cluster.kernelId);
    cluster.startOperator();
    const [container] = await cluster.createPod(node, { name: 'web', files: { '/etc/token': 'of the pod' } });
    assert.ok(container);
    await cluster.createPolicy('p', onHost('/etc/token'));

    const [data] = await cluster.dataCount(1);
    assert.match(data?.metadata.name ?? '', /^kive-data-n1-/);
    assert.equal(data?.metadata.annotations?.[ourAnnotations.host], 'true');
    const alert = await alertOf(node, host.at('etc/token'), ({ metadata }) => metadata.path === '/etc/token');
    assert.deepEqual(alert.pod, { name: '', namespace: '', ip: '', container: { id: '', name: '' } });
    assert.equal(alert.object, null);
    assert.deepEqual(alert.node, { name: 'n1' });
    assert.match(alert.message, /cat accessed \/etc\/token \(read\)\.$/);

    // The other one is of a trap that the first would have raised alerts for as well.
    await cluster.createPolicy('pods', { path: '/etc/token', matchAny: [{ pod: 'web' }] });
    node.lines.length = 0;
    await alertOf(node, join(container.root, 'etc/token'), ({ pod }) => pod.name === 'web');
    assert.ok(node.alerts.every((one) => one['kive-policy-name'] === 'pods'));

    const policy = await until('the status', async () => {
      const found = await cluster.getPolicy('p');
      return found?.status?.conditions?.some(({ reason }) => reason === 'Watching') ? found : undefined;
    });
    const { status } = policy;
    assert.equal(status?.conditions?.[0]?.message, '1 file on 1 node is watched.');
    assert.deepEqual([status?.matchedNodes, status?.matchedContainers, status?.watchedFiles], [1, 0, 1]);
    await cluster.deletePolicy('p');
    await cluster.dataCount(1);
  });

  test('follows its file: missing, then there by a link that stays in the root, replaced, moved', async () => {
    await using scene = await startNode();
    const { cluster, node, host } = scene;
    await cluster.createPolicy('p', onHost('/run/secret'));
    const problem = await until('the problem', async () => (await cluster.parts('p'))[0]?.problems?.[0]);
    assert.deepEqual([problem.container, problem.message], ['', '/run does not exist']);

    mkdirSync(host.at('run'));
    symlinkSync('/etc/token', host.at('run/secret'));
    await alertOf(node, host.at('etc/token'), ({ metadata }) => metadata.path === '/run/secret');
    renameSync(host.at('etc/token'), host.at('etc/away'));
    writeFileSync(host.at('etc/token'), 'another');
    await alertOf(node, host.at('etc/token'), ({ metadata }) => metadata.moved === undefined);
    await alertOf(node, host.at('etc/away'), ({ metadata }) => metadata.moved === true);
    const [part] = await cluster.parts('p');
    assert.deepEqual([part?.host, part?.matchedContainers], [true, 0]);

    node.lines.length = 0;
    const script = `mount --bind ${host.at('etc')} /mnt && cat /mnt/token`;
    execFileSync('unshare', ['-m', 'sh', '-c', script], { stdio: 'ignore' });
    await until('what another mount namespace reads', () =>
      node.alerts.some(({ process: by }) => by.arguments === '/mnt/token'),
    );
  });

  test('without a container runtime too; what is known of pods stays until it answers', async () => {
    await using scene = await startNode();
    const { cluster, node, host } = scene;
    const [container] = await cluster.createPod(node, { name: 'web', files: { '/etc/token': 'of the pod' } });
    assert.ok(container);
    await cluster.createPolicy('p', onHost('/etc/token'));
    await cluster.createPolicy('pods', { path: '/etc/token', matchAny: [{ pod: 'web' }] });
    const reported = await cluster.dataCount(2);
    const [before] = await until('the status of the pod', async () => {
      const parts = await cluster.parts('pods');
      return parts.length > 0 && parts;
    });
    await node.stop();

    const answered = Promise.withResolvers<void>();
    class Silent extends GivenContainers {
      override readonly synced = answered.promise;
    }
    const containers = new Silent();
    const lines: string[] = [];
    const sink = (line: string): void => void lines.push(line);
    const starting = cluster.startNode('n1', { hostRoot: host.at(''), containers, sink });
    const alerts = (): { 'kive-policy-name': string }[] =>
      lines.map((line) => JSON.parse(line) as { 'kive-policy-name': string });
    const isReported = (name: string, path: string) =>
      until(`an alert of ${name}`, () => {
        execFileSync('cat', [path]);
        return alerts().some((alert) => alert['kive-policy-name'] === name);
      });
    await isReported('p', host.at('etc/token'));
    execFileSync('cat', [join(container.root, 'etc/token')]);
    await cluster.createPolicy('later', onHost('/etc/token'));
    await isReported('later', host.at('etc/token'));
    assert.deepEqual(await cluster.parts('pods'), [before]);
    const names = new Set((await cluster.dataCount(3)).map(({ metadata }) => metadata.name));
    assert.ok(reported.every(({ metadata }) => names.has(metadata.name)));
    assert.ok(alerts().every((alert) => alert['kive-policy-name'] !== 'pods'));

    const known = node.containers.get(container.id);
    assert.ok(known);
    containers.set(known);
    answered.resolve();
    await starting;
    await isReported('pods', join(container.root, 'etc/token'));
  });

  test('are refused in a policy of a tenant, whatever pods it may match', async () => {
    await using stack = new AsyncDisposableStack();
    const host = stack.use(new TemporaryDirectory());
    const cluster = stack.use(await TestCluster.start());
    await cluster.createNamespace('tenant');
    writeFileSync(host.at('token'), '');
    const policyScope = new PolicyScope(['*']);
    const node = await cluster.startNode('n1', { hostRoot: host.at(''), policyScope });
    cluster.startOperator({ policyScope });
    const place = { namespace: 'tenant', name: 'p' };
    await cluster.client.create(kivePolicyType, { metadata: place, spec: { traps: [onHost('/token')] } });
    const message = await until('the condition', async () => {
      const { status } = await cluster.client.get(kivePolicyType, place);
      return status?.conditions?.find(({ reason }) => reason === 'TrapsRefused')?.message;
    });
    assert.match(message, /spec\.traps\[0\]\.matchAny\[0\]\.host: .*tenant match no files of nodes/);
    // When a file of another policy is found, the first would have been found, too.
    await cluster.createPolicy('allowed', onHost('/token'));
    await alertOf(node, host.at('token'), () => true);
    assert.deepEqual(new Set(node.alerts.map((alert) => alert['kive-policy-name'])), new Set(['allowed']));
  });
});
