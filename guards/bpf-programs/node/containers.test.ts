import assert from 'node:assert/strict';
import { after, before, beforeEach, suite, test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import { parentKind } from '../parent-kind.fixture.ts';
import { BpfCluster } from './node.fixture.ts';
import { otherNetwork, startPod } from './pods.fixture.ts';
import { FixtureKernel } from '../program-host.fixture.ts';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';

const image = { image: { url: 'registry.example/team/count:v1' } };
const web = { pods: { matchLabels: { app: 'web' } } };
const uprobe = {
  nodeselector: {},
  bpffunctionname: 'count',
  bytecode: image,
  func_name: 'malloc',
  target: 'libc',
};
const xdp = {
  nodeselector: {},
  bpffunctionname: 'count',
  bytecode: image,
  interfaceselector: { interfaces: ['eth0'] },
  priority: 50,
};
const pull = async () => ({ digest: 'sha256:1', bytes: async () => new Uint8Array(1) });

suite('programs in containers', () => {
  let cluster: BpfCluster;
  before(async () => void (cluster = await BpfCluster.start()));
  beforeEach(() => cluster.clear({ pull }));
  after(() => cluster[Symbol.asyncDispose]());

  test('a namespaced program sees the containers of its namespace, and what goes leaves nothing', async () => {
    await using stack = new AsyncDisposableStack();
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    const [ours, theirs] = [await otherNetwork(stack), await otherNetwork(stack)];
    await startPod(cluster, {
      namespace: 'acme',
      name: 'web',
      app: 'web',
      pid: ours,
      containers: ['app', 'log'],
    });
    await startPod(cluster, {
      namespace: 'other',
      name: 'web',
      app: 'web',
      pid: theirs,
      containers: ['app'],
    });
    cluster.containers.answer();
    stack.use(cluster.operator());
    stack.use(cluster.agent('n1', kernel));
    await cluster.create('UprobeNsProgram', 'malloc', { ...uprobe, containers: web }, 'acme');
    const text = await cluster.untilCondition('UprobeNsProgram', 'malloc', 'ReconcileSuccess', 'acme');
    assert.equal(text, '2 programs run on n1.');
    const objects = await cluster.objects('Namespaced');
    assert.deepEqual(
      objects
        .map(({ metadata }) => metadata.annotations?.['bpfman.io/bpfProgramAttachPoint'])
        .toSorted((a = '', b = '') => (a < b ? -1 : 1)),
      ['libc-malloc-web-app', 'libc-malloc-web-log'],
    );
    for (const { metadata } of objects) {
      assert.equal(metadata.namespace, 'acme');
      assert.equal(metadata.annotations?.['bpfman.io.uprobensprogramcontroller/containerpid'], String(ours));
      assert.deepEqual(metadata.finalizers, ['bpfman.io.uprobensprogramcontroller/finalizer']);
    }
    const [running] = kernel.programs.values();
    assert.equal(
      running?.id,
      `acme/${objects.find(({ metadata }) => running?.id.endsWith(metadata.name ?? '-'))?.metadata.name}`,
    );
    assert.equal(running?.owner, 'UprobeNsProgram/acme/malloc');

    cluster.containers.set('containerd://acme-web-log', undefined);
    await cluster.untilObjects((left) => left.length === 1, 'Namespaced');
    await until(() => kernel.programs.size === 1);
    cluster.containers.set('containerd://acme-web-app', undefined);
    await until(() => kernel.programs.size === 0);
    const [none] = await cluster.untilObjects(
      ([one]) => one?.status?.conditions?.[0]?.type === 'NoContainersOnNode',
      'Namespaced',
    );
    assert.equal(
      none?.metadata.annotations?.['bpfman.io/bpfProgramAttachPoint'],
      'libc-malloc-no-containers-on-node',
    );
    assert.equal(
      none?.metadata.annotations?.['bpfman.io.uprobensprogramcontroller/nocontainersonnode'],
      'true',
    );
    const why = await cluster.untilCondition('UprobeNsProgram', 'malloc', 'NotYetLoaded', 'acme', /^Nothing/);
    assert.match(
      why,
      /^Nothing to attach to: spec\.containers selects no container on n1 in a pod of namespace acme\./,
    );
  });

  test('a pod gets a program on its interface once, however many containers it has', async () => {
    await using stack = new AsyncDisposableStack();
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    const pid = await otherNetwork(stack);
    await startPod(cluster, { namespace: 'acme', name: 'web', app: 'web', pid, containers: ['app', 'log'] });
    cluster.containers.answer();
    stack.use(cluster.operator());
    stack.use(cluster.agent('n1', kernel));
    await cluster.create('XdpNsProgram', 'count', { ...xdp, containers: web }, 'acme');
    await cluster.untilCondition('XdpNsProgram', 'count', 'ReconcileSuccess', 'acme');
    assert.equal(kernel.programs.size, 1);
    const objects = await cluster.objects('Namespaced');
    const messages = objects.map(({ status }) => status?.conditions?.[0]?.message ?? '');
    assert.equal(objects.length, 2);
    assert.equal(messages.filter((one) => /attached once for the pod/.test(one)).length, 1);
    const ids = new Set(objects.map(({ metadata }) => metadata.annotations?.['bpfman.io/ProgramId']));
    assert.equal(ids.size, 1);
  });

  test('a namespaced program is kept off the network of the node; a cluster-scoped one may see all namespaces', async () => {
    await using stack = new AsyncDisposableStack();
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    await startPod(cluster, {
      namespace: 'acme',
      name: 'host',
      app: 'web',
      pid: process.pid,
      containers: ['app'],
    });
    const pid = await otherNetwork(stack);
    await startPod(cluster, { namespace: 'other', name: 'web', app: 'web', pid, containers: ['app'] });
    await startPod(cluster, {
      namespace: 'acme',
      name: 'web',
      app: 'web',
      pid: await otherNetwork(stack),
      containers: ['app'],
    });
    cluster.containers.answer();
    stack.use(cluster.operator());
    stack.use(cluster.agent('n1', kernel));
    const named = { ...web, containernames: ['app'] };
    await cluster.create('XdpNsProgram', 'count', { ...xdp, containers: named }, 'acme');
    const text = await cluster.untilCondition('XdpNsProgram', 'count', 'ReconcileError', 'acme');
    assert.match(
      text,
      /Pod acme\/host uses the node's network, to which namespaced programs must not be attached/,
    );
    assert.equal(kernel.programs.size, 1);
    await cluster.client.delete(parentKind('XdpNsProgram').type, { namespace: 'acme', name: 'count' });
    await cluster.create('XdpProgram', 'all', { ...xdp, containers: named });
    await cluster.untilCondition('XdpProgram', 'all', 'ReconcileSuccess');
    await until(() => kernel.programs.size === 3);
    // Two pods of one name are two.
    assert.equal(new Set((await cluster.objects()).map(({ metadata }) => metadata.name)).size, 3);
    await cluster.create('XdpProgram', 'one', { ...xdp, containers: { ...named, namespace: 'other' } });
    assert.equal(
      await cluster.untilCondition('XdpProgram', 'one', 'ReconcileSuccess'),
      '1 program runs on n1.',
    );
  });

  deepTest(
    'before the runtime has answered, what runs in containers stays, and what is new waits',
    async () => {
      await using stack = new AsyncDisposableStack();
      await cluster.addNode('n1');
      const kernel = new FixtureKernel();
      stack.use(cluster.agent('n1', kernel));
      await cluster.create('UprobeNsProgram', 'malloc', { ...uprobe, containers: web }, 'acme');
      await cluster.create('XdpProgram', 'count', xdp);
      await until(() => kernel.programs.size === 1);
      await cluster.untilObjects(
        ([one]) =>
          /container runtime of this node has not responded/.test(
            one?.status?.conditions?.[0]?.message ?? '',
          ),
        'Namespaced',
      );
      await startPod(cluster, {
        namespace: 'acme',
        name: 'web',
        app: 'web',
        pid: process.pid,
        containers: ['app'],
      });
      cluster.containers.answer();
      await until(() => kernel.programs.size === 2);
    },
  );
});
