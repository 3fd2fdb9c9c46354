// One loader for a kernel: several nodes on it, its end, and the API's.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { systemNamespace } from '../../../guard/guard.ts';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { heldBy } from '../../../lib/ebpf/kernel-objects.fixture.ts';
import { leases } from '../../../lib/kube/object/object.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { loaderLease } from './loader-election.ts';
import { alertOf, readByCat, TestCluster } from './node.fixture.ts';

const files = { 'secret.txt': 'secret' };
const trap = { path: '/secret.txt', matchAny: [{ containerName: '.*' }] };
/** How often a process, with all nodes in it, has programs attached. */
const attachedBy = (pid = process.pid): number => heldBy(pid).link.size;
/** After that another may take over, at the latest. */
const TAKE_OVER_MS = 15_000;
/** For a machine that has much else to do. */
const BUSY_MS = 5000;

suite('one loader for a kernel', { skip: sensorSkip }, () => {
  test('two nodes share it, and alerts name the node of the file', async () => {
    await using cluster = await TestCluster.start();
    const first = await cluster.startNode('n1');
    await until('a loader', () => first.state()?.isLoader);
    const second = await cluster.startNode('n2');
    const [a] = await cluster.createPod(first, { name: 'a', files });
    const [b] = await cluster.createPod(second, { name: 'b', files });
    assert.ok(a && b);
    await cluster.createPolicy('p', trap);
    await cluster.dataCount(2);
    assert.equal((await alertOf(first, join(a.root, 'secret.txt'), () => true)).node.name, 'n1');
    const alert = await alertOf(first, join(b.root, 'secret.txt'), ({ pod }) => pod.name === 'b');
    assert.equal(alert.node.name, 'n2');
    assert.equal(alert.pod.container.id, b.id);
    assert.deepEqual(second.lines, []);
    const { spec } = await cluster.client.get(leases, {
      namespace: systemNamespace,
      name: cluster.kernelId,
    });
    assert.match(spec?.holderIdentity ?? '', /^n1_/);

    // Stopped in order, it gives the lease back at once; what it found stays watched by the other.
    await first.stop();
    await until('the other', () => second.state()?.isLoader, loaderLease.retryPeriodMs * 3);
    const taken = await alertOf(second, join(a.root, 'secret.txt'), ({ pod }) => pod.name === 'a');
    assert.equal(taken.node.name, 'n1');

    await cluster.deletePolicy('p');
    // The agent of n1 is gone, so its part is not deleted; the operator would do it.
    const [left] = await cluster.dataCount(1);
    assert.equal(left?.metadata.annotations?.['node-name'], 'n1');
  });

  test('a loader that sees another holder of the lease ends at once, and leads again when that is gone', async () => {
    await using cluster = await TestCluster.start();
    const node = await cluster.startNode('n1');
    const [a] = await cluster.createPod(node, { name: 'a', files });
    assert.ok(a);
    await cluster.createPolicy('p', trap);
    await cluster.dataCount(1);
    const file = join(a.root, 'secret.txt');
    await alertOf(node, file, () => true);
    const lease = { namespace: systemNamespace, name: cluster.kernelId };
    const body = { spec: { holderIdentity: 'somebody', leaseDurationSeconds: 2 } };
    await cluster.client.patch(leases, lease, { type: 'merge', body });
    await until('its end', () => node.state()?.isLoader === false);
    assert.equal(attachedBy(), 0);
    node.lines.length = 0;
    readByCat(file);
    await until('to lead again', () => node.state()?.isLoader);
    assert.ok(attachedBy() > 0);
    assert.deepEqual(node.lines, []);
    await alertOf(node, file, () => true);
    await node.stop();
    assert.equal(attachedBy(), 0);
  });

  deepTest('when its holder is killed another takes over, with the files of both', async () => {
    await using cluster = await TestCluster.start();
    const node = await cluster.startNode('n2');
    await node.stop();
    // Its containers are passed to the process that will be killed.
    const [a] = await cluster.createPod({ ...node, name: 'n1' }, { name: 'a', files });
    assert.ok(a);
    const settings = {
      kubeconfig: cluster.kubeconfig,
      nodeName: 'n1',
      containers: [...node.containers.list()],
    };
    const child = spawn(
      process.execPath,
      [join(import.meta.dirname, 'node-process.fixture.ts'), JSON.stringify(settings)],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    try {
      const lines: string[] = [];
      createInterface(child.stdout).on('line', (line) => lines.push(line));
      await until('a loader', () => lines.some((line) => line.includes('"isLoader":true')));
      await cluster.createPolicy('p', trap);
      await cluster.dataCount(1);
      const file = join(a.root, 'secret.txt');
      await until('an alert of the process', () => {
        readByCat(file);
        return lines.some((line) => line.includes('kive-alert-version'));
      });
      const other = await cluster.startNode('n3');
      const [b] = await cluster.createPod(other, { name: 'b', files });
      assert.ok(b);
      await cluster.dataCount(2);
      assert.ok(attachedBy(child.pid) > 0);
      assert.equal(attachedBy(), 0);
      child.kill('SIGKILL');
      await once(child, 'exit');
      assert.equal(other.state()?.isLoader, false);
      await until('the other', () => other.state()?.isLoader, TAKE_OVER_MS + BUSY_MS);
      assert.ok(attachedBy() > 0);
      assert.equal((await alertOf(other, file, ({ pod }) => pod.name === 'a')).node.name, 'n1');
      await alertOf(other, join(b.root, 'secret.txt'), ({ pod }) => pod.name === 'b');
    } finally {
      child.kill('SIGKILL');
    }
  });

  deepTest(
    'without the API alerts go on, also of files that are replaced; afterwards all is in order',
    async () => {
      await using cluster = await TestCluster.start({ memory: false });
      const stopOperator = cluster.startOperator();
      const node = await cluster.startNode('n1');
      const [a, b] = await cluster.createPod(node, { name: 'a', containers: ['one', 'two'], files });
      assert.ok(a && b);
      await cluster.createPolicy('p', trap);
      await cluster.dataCount(2);
      const file = join(a.root, 'secret.txt');
      await alertOf(node, file, () => true);

      await cluster.stopApi();
      // Longer than the lease can be without renewal.
      await delay(loaderLease.leaseDurationSeconds * 1000 + 1000);
      node.lines.length = 0;
      readByCat(file);
      await until('an alert without the API', () => node.lines.length === 1);
      writeFileSync(`${file}.new`, 'saved');
      renameSync(`${file}.new`, file);
      const { ino } = statSync(file);
      const replaced = await alertOf(node, file, ({ metadata }) => metadata.inode === ino);
      assert.equal(replaced.pod.name, 'a');
      node.containers.delete(b.id);

      await cluster.startApi();
      const [data] = await cluster.dataCount(1);
      assert.equal(data?.metadata.annotations?.['container-name'], 'one');
      await until('the new file in the API', async () => (await cluster.data())[0]?.spec.inodeNo === ino);
      await until('the lease', async () => {
        const { spec } = await cluster.client.get(leases, {
          namespace: systemNamespace,
          name: cluster.kernelId,
        });
        return spec?.holderIdentity?.startsWith('n1_') === true && node.state()?.isLoader;
      });
      await cluster.deletePolicy('p');
      await cluster.dataCount(0);
      await until('the policy is gone', async () => (await cluster.getPolicy('p')) === undefined);
      await stopOperator();
    },
  );

  deepTest('a file is watched while its policy is edited: each access is reported once', async () => {
    await using cluster = await TestCluster.start();
    const node = await cluster.startNode('n1');
    const [a] = await cluster.createPod(node, { name: 'a', files });
    assert.ok(a);
    const edited = (number: number) => ({ ...trap, metadata: { number: String(number) } });
    await cluster.createPolicy('p', edited(0));
    await cluster.dataCount(1);
    const file = join(a.root, 'secret.txt');
    await alertOf(node, file, () => true);
    await delay(100);
    node.lines.length = 0;
    let reads = 0;
    for (let number = 1; number <= 20; number++) {
      const editing = cluster.setTraps('p', edited(number));
      for (let i = 0; i < 5; i++) {
        readByCat(file);
        reads++;
        await delay(5);
      }
      await editing;
    }
    await until('the last edit', async () => {
      const [data] = await cluster.data();
      return data?.spec.metadata?.['number'] === '20';
    });
    await until('all alerts', () => node.lines.length >= reads);
    await delay(100);
    assert.equal(node.lines.length, reads);
    const numbers = node.alerts.map((alert) => Number(alert['custom-metadata']['number']));
    assert.deepEqual(
      numbers,
      numbers.toSorted((x, y) => x - y),
    );
  });
});
