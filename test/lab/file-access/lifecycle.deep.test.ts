// Containers and pods that come and go, share files and addresses, and policies that change meanwhile.
import assert from 'node:assert/strict';
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { nodes } from '../../../lib/kube/object/object.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import type { KiveAlert } from '../../../guards/file-access/alert/alert.ts';
import type { KiveData } from '../../../guards/file-access/api.ts';
import { pods as podType } from '../../../lib/kube/object/object.ts';
import { GuardedLab } from '../guarded-lab.fixture.ts';
import type { LabPod } from '../lab.ts';
import { labObstacle } from '../obstacle.ts';
import { LabCluster, pathIn } from './lab-cluster.fixture.ts';

const sleeps = ['sleep', '1000000'];
const owner = ({ pod }: KiveAlert): string => `${pod.name}/${pod.container.name}`;
const annotation = ({ metadata }: KiveData, name: string): string | undefined => metadata.annotations?.[name];

suite('containers, pods and policies come and go', { skip: sensorSkip || labObstacle() }, () => {
  let guarded: GuardedLab;
  before(async () => {
    guarded = await GuardedLab.start();
  });
  after(async () => guarded?.[Symbol.asyncDispose]());

  test('a container is restarted: its successor is watched, under its own id', async () => {
    const { lab } = guarded;
    const spec = { name: 'again', containers: [{ name: 'c', command: sleeps }] };
    const { pod, ...first } = await guarded.run(spec);
    let { container } = first;
    await guarded.setPolicy('again', [{ path: '/etc/shadow', matchAny: [{ pod: 'again' }] }]);
    const ids = new Set<string>();
    for (let attempt = 0; attempt < 3; attempt++) {
      if (attempt > 0) container = await lab.restartContainer(pod, 'c');
      const id = `containerd://${container.id}`;
      await until('the KiveData of the container that runs', async () => {
        const data = await guarded.data('again');
        return data.length === 1 && data.every((one) => annotation(one, 'container-id') === id);
      });
      await guarded.dataCount('again', 1);
      const alerts = await guarded.alertsOf(() => lab.exec(container, ['cat', '/etc/shadow']));
      assert.deepEqual(
        alerts.map((alert) => [
          alert.pod.container.id,
          alert.accessor?.container.id,
          alert.accessor?.relation,
        ]),
        [[id, id, 'owner']],
      );
      ids.add(id);
    }
    assert.equal(ids.size, 3);
    await guarded.deletePolicy('again');
    await lab.removePod(pod);
  });

  test('an address that another pod gets: the trap and the alerts go with it', async () => {
    const { lab } = guarded;
    const command = { containers: [{ name: 'c', command: sleeps }] };
    // Without this the plugin goes through the whole network before it gives an address again.
    const fromTheFirst = (): void => rmSync(join(lab.directory, 'addresses/lab/last_reserved_ip.0'));
    fromTheFirst();
    const { pod: first, container: inFirst } = await guarded.run({ name: 'first', ...command });
    const { pod: other, container: inOther } = await guarded.run({ name: 'other', ...command });
    await guarded.setPolicy('address', [{ path: '/etc/shadow', matchAny: [{ ip: first.ip }] }]);
    await guarded.dataCount('address', 1);
    const read = async (container: typeof inFirst): Promise<unknown[]> =>
      (await guarded.alertsOf(() => lab.exec(container, ['cat', '/etc/shadow']))).map(({ pod }) => [
        pod.name,
        pod.ip,
      ]);
    assert.deepEqual(await read(inFirst), [['first', first.ip]]);
    assert.deepEqual(await read(inOther), []);

    await lab.removePod(first);
    await guarded.dataCount('address', 0);
    fromTheFirst();
    const { pod: second, container: inSecond } = await guarded.run({ name: 'second', ...command });
    assert.equal(second.ip, first.ip);
    await guarded.dataCount('address', 1);
    assert.deepEqual(await read(inSecond), [['second', first.ip]]);
    assert.deepEqual(await read(inOther), []);
    await guarded.deletePolicy('address');
    for (const pod of [other, second]) await lab.removePod(pod);
  });

  test('several traps on one file, of one or two policies, raise an alert each', async () => {
    const { lab } = guarded;
    const { pod, container } = await guarded.run({
      name: 'traps',
      containers: [{ name: 'c', command: ['sh', '-c', 'ln /etc/shadow /etc/same; exec sleep 1000000'] }],
    });
    const matchAny = [{ pod: 'traps' }];
    await guarded.setPolicy('two', [
      { path: '/etc/shadow', metadata: { trap: '1' }, matchAny },
      { path: '/etc/shadow', metadata: { trap: '2' }, matchAny },
      { path: '/etc/same', metadata: { trap: '3' }, matchAny },
    ]);
    await guarded.setPolicy('one', [{ path: '/etc/shadow', metadata: { trap: '4' }, matchAny }]);
    await guarded.dataCount('two', 3);
    await guarded.dataCount('one', 1);
    const raised = async (path: string): Promise<string[]> =>
      (await guarded.alertsOf(() => lab.exec(container, ['cat', path])))
        .map(
          (alert) =>
            `${alert['kive-policy-name']} ${alert['custom-metadata']['trap']} ${alert.metadata.path}`,
        )
        .sort();
    const all = ['one 4 /etc/shadow', 'two 1 /etc/shadow', 'two 2 /etc/shadow', 'two 3 /etc/same'];
    assert.deepEqual(await raised('/etc/shadow'), all);
    assert.deepEqual(await raised('/etc/same'), all);
    await guarded.deletePolicy('two');
    assert.deepEqual(await raised('/etc/shadow'), all.slice(0, 1));
    await guarded.deletePolicy('one');
    assert.deepEqual(await raised('/etc/shadow'), []);
    await lab.removePod(pod);
  });

  test('one file by two names in a volume of two pods: both own it, the accessor is who read', async () => {
    const { lab } = guarded;
    const hostPath = guarded.hostDirectory('shared');
    writeFileSync(join(hostPath, 'a'), 'shared');
    linkSync(join(hostPath, 'a'), join(hostPath, 'b'));
    const run = (name: string): ReturnType<GuardedLab['run']> =>
      guarded.run({
        name,
        containers: [{ name: `c-${name}`, command: sleeps, mounts: [{ containerPath: '/data', hostPath }] }],
      });
    const [left, right] = [await run('left'), await run('right')];
    await guarded.setPolicy('shared', [
      { path: '/data/a', matchAny: [{ pod: 'left' }] },
      { path: '/data/b', matchAny: [{ pod: 'right' }] },
    ]);
    const data = await guarded.dataCount('shared', 2);
    assert.equal(new Set(data.map(({ spec }) => spec.inodeNo)).size, 1);
    const reported = async (action: () => unknown): Promise<unknown[]> =>
      (await guarded.alertsOf(action))
        .map((alert) => [
          owner(alert),
          alert.metadata.path,
          alert.accessor?.relation,
          alert.accessor?.container.name,
        ])
        .sort((a, b) => String(a).localeCompare(String(b)));
    for (const path of ['/data/a', '/data/b']) {
      assert.deepEqual(await reported(() => lab.exec(left.container, ['cat', path])), [
        ['left/c-left', '/data/a', 'owner', 'c-left'],
        ['right/c-right', '/data/b', 'container', 'c-left'],
      ]);
    }
    assert.deepEqual(await reported(() => readFileSync(join(hostPath, 'a'))), [
      ['left/c-left', '/data/a', 'host', ''],
      ['right/c-right', '/data/b', 'host', ''],
    ]);
    // The file is still the other's.
    await lab.removePod(left.pod);
    await guarded.dataCount('shared', 1);
    assert.deepEqual(await reported(() => lab.exec(right.container, ['cat', '/data/a'])), [
      ['right/c-right', '/data/b', 'owner', 'c-right'],
    ]);
    await guarded.deletePolicy('shared');
    await lab.removePod(right.pod);
  });

  test('init and ephemeral containers; a trap for one container of a pod', async () => {
    const { lab } = guarded;
    const hostPath = guarded.hostDirectory('go');
    const mounts = [{ containerPath: '/go', hostPath }];
    await guarded.setPolicy('kinds', [
      { path: '/etc/shadow', matchAny: [{ pod: 'kinds', containerName: '^(init|web|debugger)$' }] },
    ]);
    const wait = 'while [ ! -e /go/on ]; do sleep 0.02; done; cat /etc/shadow; touch /go/read';
    const running = lab.runPod({
      name: 'kinds',
      initContainers: [
        {
          name: 'init',
          command: ['sh', '-c', `${wait}; while [ ! -e /go/end ]; do sleep 0.02; done`],
          mounts,
        },
      ],
      containers: [
        { name: 'web', command: sleeps },
        { name: 'side', command: sleeps },
      ],
    });
    running.catch(() => undefined);
    const [init] = await guarded.dataCount('kinds', 1);
    assert.ok(init);
    assert.equal(annotation(init, 'container-name'), 'init');
    const duringInit = await guarded.alertsOf(async () => {
      writeFileSync(join(hostPath, 'on'), '');
      await until(
        'the init container to have read',
        () => readFileSync(join(hostPath, 'read')) !== undefined,
      );
    });
    assert.deepEqual(duringInit.map(owner), ['kinds/init']);
    writeFileSync(join(hostPath, 'end'), '');
    const pod = await running;
    await until('the container after it', async () =>
      (await guarded.data('kinds')).some((one) => annotation(one, 'container-name') === 'web'),
    );
    await guarded.dataCount('kinds', 1);
    const debug = await lab.addContainer(pod, { name: 'debugger', command: sleeps });
    await guarded.dataCount('kinds', 2);
    const alerts = await guarded.alertsOf(async () => {
      for (const container of [pod.containers.get('web'), pod.containers.get('side'), debug]) {
        assert.ok(container);
        await lab.exec(container, ['cat', '/etc/shadow']);
      }
    });
    assert.deepEqual(alerts.map(owner), ['kinds/web', 'kinds/debugger']);
    await guarded.deletePolicy('kinds');
    await lab.removePod(pod);
  });

  test('pods in the network of the host have its address', async () => {
    const { lab } = guarded;
    const [node] = (await guarded.client.list(nodes)).items as {
      status?: { addresses?: { type: string; address: string }[] };
    }[];
    const address = node?.status?.addresses?.find(({ type }) => type === 'InternalIP')?.address ?? '';
    const { pod, container } = await guarded.run({
      name: 'on-host',
      hostNetwork: true,
      containers: [{ name: 'c', command: sleeps }],
    });
    const match = address === '' ? { pod: 'on-host' } : { ip: address };
    await guarded.setPolicy('on-host', [{ path: '/etc/shadow', matchAny: [match] }]);
    await guarded.dataCount('on-host', 1);
    const alerts = await guarded.alertsOf(() => lab.exec(container, ['cat', '/etc/shadow']));
    assert.deepEqual(
      alerts.map((alert) => [owner(alert), alert.pod.ip, alert.accessor?.relation]),
      [['on-host/c', address, 'owner']],
    );
    await guarded.deletePolicy('on-host');
    await lab.removePod(pod);
  });
});

suite('an address that is reported late', { skip: sensorSkip || labObstacle() }, () => {
  test('the address is that of the runtime until the API has one; without both it is missing until one comes', async () => {
    await using cluster = await LabCluster.start();
    const node = await cluster.addNode('n1');
    const containers = [{ name: 'c', command: sleeps }];
    const [early, late] = [
      await node.lab.runPod({ name: 'early', containers }),
      // The runtime has no address for it.
      await node.lab.runPod({ name: 'late', hostNetwork: true, containers }),
    ];
    const lateIp = '192.0.2.7';
    await cluster.setPolicy('named', [{ path: '/etc/shadow', matchAny: [{ pod: 'late' }] }]);
    await cluster.setPolicy('by-ip', [{ path: '/etc/shadow', matchAny: [{ ip: early.ip }, { ip: lateIp }] }]);
    for (const pod of [early, late]) {
      const { name, namespace, uid } = pod;
      // As kubelet creates it: a later status reports its containers.
      await cluster.client.create(podType, {
        metadata: { name, namespace, annotations: { 'kubernetes.io/config.hash': uid } },
        spec: { nodeName: 'n1', containers: [{ name: 'c', image: 'lab' }] },
      });
    }
    const raised = async (pod: LabPod): Promise<string[]> => {
      const from = await node.mark();
      readFileSync(pathIn(pod.containers.get('c') ?? assert.fail(), '/etc/shadow'));
      const to = await node.mark();
      return node.agent.reported
        .slice(from + 1, to)
        .map(({ alert }) => `${alert['kive-policy-name']} ${owner(alert)} ${alert.pod.ip}`)
        .sort();
    };
    await cluster.dataCount('named', 1);
    await cluster.dataCount('by-ip', 1);
    await node.markUntilReported();
    assert.deepEqual(await raised(early), [`by-ip early/c ${early.ip}`]);
    assert.deepEqual(await raised(late), ['named late/c ']);
    const place = { namespace: 'default', name: 'late', subresource: 'status' };
    const body = { status: { phase: 'Running', podIP: lateIp } };
    await cluster.client.patch(podType, place, { type: 'merge', body });
    await cluster.dataCount('by-ip', 2);
    await until('the address in both', async () =>
      [...(await cluster.data('named')), ...(await cluster.data('by-ip'))]
        .filter((data) => annotation(data, 'pod-name') === 'late')
        .every((data) => annotation(data, 'pod-ip') === lateIp),
    );
    assert.deepEqual(await raised(late), [`by-ip late/c ${lateIp}`, `named late/c ${lateIp}`]);
  });
});
