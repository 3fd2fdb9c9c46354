// Faults of Kive as released, a test for each: numbered as in the list of its faults. Those with an API of a
// whole cluster (5, 9), a receiver (10) or a flood (11) are in the files beside.
import assert from 'node:assert/strict';
import { statSync, writeFileSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { kivePolicyType } from '../../../guards/file-access/api.ts';
import { GuardedLab, summary } from '../guarded-lab.fixture.ts';
import { labObstacle } from '../obstacle.ts';

const path = '/etc/shadow';
const busybox = '/bin/busybox';

suite('faults of Kive', { skip: sensorSkip || labObstacle() }, () => {
  let guarded: GuardedLab;
  before(async () => {
    guarded = await GuardedLab.start();
  });
  after(async () => await guarded?.[Symbol.asyncDispose]());

  test('1: create makes missing files, with the given mode, and never changes existing ones', async () => {
    const { container } = await guarded.run({ name: 'create' });
    await guarded.sh(container, 'echo mine > /root/there; chmod 640 /root/there');
    const set = async (round: string): Promise<unknown> =>
      await guarded.setPolicy(
        'create',
        [
          { path: '/root/there', mode: 444 },
          { path: '/root/new', mode: 444 },
          { path: '/root/quoted', mode: '0640' },
          { path: '/root/default' },
        ].map((trap) => ({ ...trap, create: true, metadata: { round }, matchAny: [{ pod: 'create' }] })),
      );
    const stat = async (): Promise<string> =>
      await guarded.sh(container, 'cd /root; stat -c "%n %a %s %i" there new quoted default; cat there new');
    await set('0');
    await guarded.dataCount('create', 4);
    await guarded.sh(container, 'echo kept > /root/new');
    const first = await stat();
    assert.match(
      first,
      /^there 640 5 \d+\nnew 444 5 \d+\nquoted 640 0 \d+\ndefault 400 0 \d+\nmine\nkept\n$/,
    );
    const alerts = await guarded.alertsOf(async () => {
      for (const round of ['1', '2', '3']) {
        await set(round);
        await until(`round ${round}`, async () =>
          (await guarded.data('create')).every(({ spec }) => spec.metadata?.['round'] === round),
        );
      }
    });
    assert.deepEqual(alerts, []);
    await guarded.standalone.stop();
    await guarded.startRampart();
    await guarded.dataCount('create', 4);
    assert.deepEqual(guarded.alerts(), []);
    assert.equal(await stat(), first);
    // YAML reads it as another number.
    const { code, stderr } = guarded.standalone.kubectl(
      ...['patch', 'kivepolicy', 'create', '-n', 'kivebpf-system', '--type=merge', '-p'],
      'spec: { traps: [{ path: /x, create: true, mode: 0444, matchAny: [{ pod: x }] }] }',
    );
    assert.equal(code, 1);
    assert.match(stderr, /mode.*the digits are octal.*write 444 or "0444"/s);
    await guarded.deletePolicy('create');
  });

  test('2: the address of a pod matches, and no other', async () => {
    const { pod, container } = await guarded.run({ name: 'ip-1' });
    const { container: other } = await guarded.run({ name: 'ip-2' });
    await guarded.setPolicy('ip', [{ path, matchAny: [{ ip: pod.ip }] }]);
    await guarded.dataCount('ip', 1);
    const alerts = await guarded.alertsOf(async () => {
      await guarded.sh(other, `cat ${path}`);
      await guarded.sh(container, `cat ${path}`);
    });
    assert.deepEqual(alerts.map(summary), [`ip default/ip-1/nginx ${path} ${busybox} 36`]);
    await guarded.deletePolicy('ip');
  });

  test('3: address, whole path, working directory and arguments, also of a process that is long gone', async () => {
    const { pod, container } = await guarded.run({ name: 'gone' });
    const binary = '/opt/tools/a-name-of-more-than-sixteen-bytes';
    await guarded.sh(container, `mkdir -p /opt/tools; cp ${busybox} ${binary}; chmod 644 ${path}`);
    await guarded.setPolicy('gone', [{ path, matchAny: [{ pod: 'gone' }] }]);
    await guarded.dataCount('gone', 1);
    const alerts = await guarded.alertsOf(async () => {
      // The process ends before it can be inspected.
      process.kill(guarded.standalone.pid, 'SIGSTOP');
      try {
        await guarded.sh(container, `cd /usr/share/nginx && exec -a cat ${binary} -u ${path}`);
        await guarded.sh(container, `rm ${binary}`);
        await guarded.sh(container, `su -s /bin/sh nginx -c '/bin/cat ${path}'`);
      } finally {
        process.kill(guarded.standalone.pid, 'SIGCONT');
      }
    });
    assert.deepEqual(
      alerts.map(({ pod: { ip }, process: { comm, binary: whole, cwd, arguments: args, uid, gid } }) => ({
        ...{ ip, comm, whole, cwd, args, uid, gid },
      })),
      [
        {
          ...{ ip: pod.ip, comm: 'a-name-of-more-', whole: binary },
          ...{ cwd: '/usr/share/nginx', args: `-u ${path}`, uid: 0, gid: 0 },
        },
        {
          ...{ ip: pod.ip, comm: 'cat', whole: busybox },
          ...{ cwd: '/', args: path, uid: 101, gid: 101 },
        },
      ],
    );
    await guarded.deletePolicy('gone');
  });

  test('4: an inode number that several pods have: the alert is of the right pod and policy', async () => {
    const pods = await Promise.all(['same-1', 'same-2', 'same-3'].map((name) => guarded.run({ name })));
    const inodes = pods.map(({ container }) => statSync(guarded.pathIn(container, path)).ino);
    if (guarded.lab.snapshotter === 'overlayfs') assert.equal(new Set(inodes).size, 1);
    for (const { pod } of pods) await guarded.setPolicy(pod.name, [{ path, matchAny: [{ pod: pod.name }] }]);
    for (const { pod } of pods) await guarded.dataCount(pod.name, 1);
    for (const { pod, container } of pods) {
      const alerts = await guarded.alertsOf(async () => await guarded.sh(container, `cat ${path}`));
      assert.deepEqual(alerts.map(summary), [`${pod.name} default/${pod.name}/nginx ${path} ${busybox} 36`]);
    }
    for (const { pod } of pods) await guarded.deletePolicy(pod.name);
  });

  test('6: several traps on one file of one container: each has its KiveData and its alert', async () => {
    const { container } = await guarded.run({ name: 'traps' });
    const trap = (severity: string) => ({ path, metadata: { severity }, matchAny: [{ pod: 'traps' }] });
    await guarded.setPolicy('traps-1', [trap('low'), trap('high')]);
    await guarded.setPolicy('traps-2', [trap('low')]);
    const data = [...(await guarded.dataCount('traps-1', 2)), ...(await guarded.dataCount('traps-2', 1))];
    assert.equal(new Set(data.map(({ metadata }) => metadata.name)).size, 3);
    assert.equal(new Set(data.map(({ spec }) => spec.inodeNo)).size, 1);
    const reported = async (): Promise<string[]> =>
      (await guarded.alertsOf(async () => await guarded.sh(container, `cat ${path}`)))
        .map((alert) => `${alert['kive-policy-name']} ${alert['custom-metadata']['severity']}`)
        .sort((a, b) => (a < b ? -1 : 1));
    assert.deepEqual(await reported(), ['traps-1 high', 'traps-1 low', 'traps-2 low']);
    await guarded.setPolicy('traps-1', [trap('low')]);
    await guarded.dataCount('traps-1', 1);
    assert.deepEqual(await reported(), ['traps-1 low', 'traps-2 low']);
    await guarded.deletePolicy('traps-1');
    assert.deepEqual(await reported(), ['traps-2 low']);
    // Another policy of the same name, in the namespace of the pod.
    const key = { name: 'traps-2', namespace: 'default' };
    await guarded.client.create(kivePolicyType, { metadata: key, spec: { traps: [trap('high')] } });
    await guarded.dataCount('traps-2', 2);
    assert.deepEqual(await reported(), ['traps-2 high', 'traps-2 low']);
    await guarded.client.delete(kivePolicyType, key);
    await guarded.dataCount('traps-2', 1);
    assert.deepEqual(await reported(), ['traps-2 low']);
    await guarded.deletePolicy('traps-2');
    assert.deepEqual(await reported(), []);
  });

  test('7: a file that two pods share stays watched for the one that stays', async () => {
    const hostPath = guarded.hostDirectory('shared');
    writeFileSync(`${hostPath}/token`, 'secret');
    const containers = [{ name: 'main', mounts: [{ containerPath: '/data', hostPath }] }];
    const labels = { app: 'shared' };
    const { pod: first } = await guarded.run({ name: 'shared-1', labels, containers });
    const { container } = await guarded.run({ name: 'shared-2', labels, containers });
    await guarded.setPolicy('shared', [{ path: '/data/token', matchAny: [{ matchLabels: labels }] }]);
    const [one, two] = await guarded.dataCount('shared', 2);
    assert.deepEqual(one?.spec, two?.spec);
    const reported = async (): Promise<string[]> =>
      (await guarded.alertsOf(async () => await guarded.sh(container, 'cat /data/token')))
        .map(({ pod, accessor }) => `${pod.name} by ${accessor?.pod.name}`)
        .sort((a, b) => (a < b ? -1 : 1));
    assert.deepEqual(await reported(), ['shared-1 by shared-2', 'shared-2 by shared-2']);
    await guarded.lab.removePod(first);
    await guarded.dataCount('shared', 1);
    assert.deepEqual(await reported(), ['shared-2 by shared-2']);
    await guarded.deletePolicy('shared');
  });

  test('8: pods without a container, in their init containers, that crash or lack the file hold up no other', async () => {
    const labels = { app: 'mixed' };
    const hostPath = guarded.hostDirectory('mixed');
    const mounts = [{ containerPath: '/go', hostPath }];
    const wait = ['sh', '-c', 'while [ ! -e /go/on ]; do sleep 0.05; done; rm /etc/shadow'];
    await guarded.lab.runPod({ name: 'mixed-empty', labels, containers: [] });
    // `rm`: the containers that started late must not have the file.
    const starting = guarded.lab.runPod({
      name: 'mixed-init',
      labels,
      initContainers: [{ name: 'init', command: wait, mounts }],
      containers: [{ name: 'late' }],
    });
    try {
      const lacks = await guarded.run({ name: 'mixed-lacks', labels });
      await guarded.sh(lacks.container, `rm ${path}`);
      await guarded.lab.runPod({
        name: 'mixed-crash',
        labels,
        containers: [{ name: 'crash', command: ['false'] }, { name: 'beside' }],
      });
      const good = await guarded.run({ name: 'mixed-good', labels });
      await guarded.setPolicy('mixed', [{ path, matchAny: [{ matchLabels: labels }] }]);
      const names = async (count: number): Promise<unknown[]> =>
        (await guarded.dataCount('mixed', count))
          .map(({ metadata }) => metadata.annotations?.['container-name'])
          .sort((a = '', b = '') => (a < b ? -1 : 1));
      assert.deepEqual(await names(3), ['beside', 'init', 'nginx']);
      const alerts = await guarded.alertsOf(async () => await guarded.sh(good.container, `cat ${path}`));
      assert.deepEqual(alerts.map(summary), [`mixed default/mixed-good/nginx ${path} ${busybox} 36`]);
      await until('who it is missing in is told', async () => {
        const { status } = await guarded.policy('mixed');
        const ready = status?.conditions?.find(({ type }) => type === 'Ready');
        return /mixed-lacks/.test(ready?.message ?? '');
      });
      writeFileSync(`${hostPath}/on`, '');
      await starting;
      assert.deepEqual(await names(3), ['beside', 'late', 'nginx']);
    } finally {
      writeFileSync(`${hostPath}/on`, '');
      await starting;
    }
    await guarded.deletePolicy('mixed');
  });

  test('12: a match without an item is refused, and what was there before stays', async () => {
    const { container } = await guarded.run({ name: 'empty' });
    await guarded.setPolicy('empty', [{ path, matchAny: [{ pod: 'empty' }] }]);
    await guarded.dataCount('empty', 1);
    const { code, stderr } = guarded.standalone.kubectl(
      ...['patch', 'kivepolicy', 'empty', '-n', 'kivebpf-system', '--type=merge', '-p'],
      JSON.stringify({ spec: { traps: [{ path, matchAny: [{}] }] } }),
    );
    assert.equal(code, 1);
    assert.match(stderr, /At least one match block with one match item must be present/);
    const alerts = await guarded.alertsOf(async () => await guarded.sh(container, `cat ${path}`));
    assert.deepEqual(alerts.map(summary), [`empty default/empty/nginx ${path} ${busybox} 36`]);
    await guarded.deletePolicy('empty');
  });

  test('13: init containers and ephemeral ones are covered, each by its name', async () => {
    const hostPath = guarded.hostDirectory('init');
    await guarded.setPolicy('kinds', [{ path, matchAny: [{ pod: 'kinds' }] }]);
    const starting = guarded.lab.runPod({
      name: 'kinds',
      initContainers: [
        {
          name: 'prepare',
          command: ['sh', '-c', `while [ ! -e /go/on ]; do sleep 0.05; done; cat ${path}`],
          mounts: [{ containerPath: '/go', hostPath }],
        },
      ],
    });
    try {
      await guarded.dataCount('kinds', 1);
      const alerts = await guarded.alertsOf(async () => {
        writeFileSync(`${hostPath}/on`, '');
        await starting;
      });
      assert.deepEqual(alerts.map(summary), [`kinds default/kinds/prepare ${path} ${busybox} 36`]);
    } finally {
      writeFileSync(`${hostPath}/on`, '');
      await starting;
    }
    const pod = await starting;
    const debug = await guarded.lab.addContainer(pod, { name: 'debug', command: ['sleep', '1000'] });
    await guarded.dataCount('kinds', 2);
    const alerts = await guarded.alertsOf(async () => await guarded.sh(debug, `cat ${path}`));
    assert.deepEqual(alerts.map(summary), [`kinds default/kinds/debug ${path} ${busybox} 36`]);
    await guarded.deletePolicy('kinds');
  });

  test('14: what the agent itself does raises no alert, even on files that it writes all the time', async () => {
    const hostPath = guarded.standalone.at('data');
    const { container } = await guarded.run({
      name: 'own',
      containers: [{ name: 'main', mounts: [{ containerPath: '/data', hostPath, readonly: true }] }],
    });
    const paths = ['/data/api.db', '/data/api.db-wal', '/root/created'];
    const matchAny = [{ pod: 'own' }];
    const alerts = await guarded.alertsOf(async () => {
      for (const round of ['1', '2', '3']) {
        await guarded.setPolicy(
          'own',
          paths.map((name) => ({ path: name, create: true, metadata: { round }, matchAny })),
        );
        await guarded.dataCount('own', paths.length);
      }
    });
    assert.deepEqual(alerts, []);
    const size = statSync(`${hostPath}/api.db-wal`).size;
    assert.ok(size > 0, 'it does write');
    const read = await guarded.alertsOf(
      async () => await guarded.sh(container, `head -n 1 ${paths.join(' ')}`),
    );
    assert.deepEqual(
      read.map(({ metadata }) => metadata.path),
      paths,
    );
    await guarded.deletePolicy('own');
  });
});
