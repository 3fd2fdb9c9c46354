import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { after, afterEach, before, suite, test } from 'node:test';

import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { nodeTypes } from '../api.ts';
import { parentKind } from '../parent-kind.fixture.ts';
import { BpfCluster } from './node.fixture.ts';
import { FixtureKernel } from '../program-host.fixture.ts';

const xdp = (path: string, more: object = {}): object => ({
  nodeselector: {},
  bpffunctionname: 'count',
  bytecode: { path },
  interfaceselector: { interfaces: ['eth0'] },
  priority: 50,
  ...more,
});

suite('programs on nodes', () => {
  let cluster: BpfCluster;
  before(async () => void (cluster = await BpfCluster.start()));
  afterEach(() => cluster.clear());
  after(() => cluster[Symbol.asyncDispose]());

  test('an XdpProgram runs, its object says so as bpfman would, and nothing is left when it is deleted', async () => {
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    using _operator = cluster.operator();
    using _agent = cluster.agent('n1', kernel);
    const parent = await cluster.create('XdpProgram', 'count', xdp(cluster.object));
    const text = await cluster.untilCondition('XdpProgram', 'count', 'ReconcileSuccess');
    assert.equal(text, '1 program runs on n1.');
    const [object, ...more] = await cluster.objects();
    assert.deepEqual(more, []);
    assert.ok(object);
    const { metadata, spec, status } = object;
    assert.match(metadata.name ?? '', /^count-[0-9a-f]{8}$/);
    assert.deepEqual(metadata.labels, {
      'bpfman.io/ownedByProgram': 'count',
      'bpfman.io/appProgramId': '',
      'kubernetes.io/hostname': 'n1',
    });
    assert.deepEqual(metadata.annotations, {
      'bpfman.io/ProgramId': '100',
      'bpfman.io/bpfProgramAttachPoint': 'eth0',
      'bpfman.io.xdpprogramcontroller/interface': 'eth0',
    });
    assert.deepEqual(metadata.finalizers, ['bpfman.io.xdpprogramcontroller/finalizer']);
    assert.deepEqual(
      metadata.ownerReferences?.map(({ kind, uid, controller }) => ({ kind, uid, controller })),
      [{ kind: 'XdpProgram', uid: parent.metadata.uid, controller: true }],
    );
    assert.deepEqual(spec, { type: 'xdp' });
    const [condition] = status?.conditions ?? [];
    assert.deepEqual(
      [condition?.type, condition?.reason, condition?.status],
      ['Loaded', 'bpfmanLoaded', 'True'],
    );
    assert.match(condition?.message ?? '', /^count of sha256:[0-9a-f]{64} runs as program 100$/);
    const [running] = kernel.programs.values();
    assert.equal(running?.id, metadata.name);
    assert.equal(running?.owner, 'XdpProgram/count');
    assert.deepEqual(running?.desired.attach, {
      type: 'xdp',
      hook: { interface: 'eth0', container: undefined },
      order: { priority: 50, proceedOn: 0x8000_0004 },
    });
    const live = await cluster.get('XdpProgram', 'count');
    assert.deepEqual(live?.metadata.finalizers, ['bpfman.io.operator/finalizer']);

    await cluster.client.delete(parentKind('XdpProgram').type, { name: 'count' });
    await until(async () => (await cluster.get('XdpProgram', 'count')) === undefined);
    assert.equal(kernel.programs.size, 0);
    assert.deepEqual(await cluster.objects(), []);
  });

  test('an agent that was away adopts what runs, and takes away what was deleted meanwhile', async () => {
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    using _operator = cluster.operator();
    const first = cluster.agent('n1', kernel);
    await cluster.create('XdpProgram', 'stays', xdp(cluster.object));
    await cluster.create('XdpProgram', 'goes', xdp(cluster.object));
    await cluster.untilCondition('XdpProgram', 'stays', 'ReconcileSuccess');
    await cluster.untilCondition('XdpProgram', 'goes', 'ReconcileSuccess');
    const stayed = [...kernel.programs.values()].find(({ owner }) => owner === 'XdpProgram/stays');
    first[Symbol.dispose]();

    await cluster.client.delete(parentKind('XdpProgram').type, { name: 'goes' });
    const waiting = await cluster.untilCondition('XdpProgram', 'goes', 'DeleteError');
    assert.equal(waiting, 'The agents have not removed it from n1 yet.');
    assert.equal(kernel.programs.size, 2);

    using _second = cluster.agent('n1', kernel);
    await until(async () => (await cluster.get('XdpProgram', 'goes')) === undefined);
    assert.deepEqual(
      [...kernel.programs.values()].map(({ programId }) => programId),
      [stayed?.programId],
    );
    assert.equal(kernel.loads.length, 2);
  });

  deepTest('programs keep running if the registry is down after a restart', async () => {
    cluster.pull = async () => ({
      digest: 'sha256:1',
      bytes: async () => new Uint8Array(1),
      types: { count: 'xdp' },
    });
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    const first = cluster.agent('n1', kernel);
    const image = { url: 'registry.example/team/count:v1', imagepullpolicy: 'Always' };
    await cluster.create('XdpProgram', 'count', xdp('', { bytecode: { image } }));
    await until(() => kernel.programs.size === 1);
    first[Symbol.dispose]();
    cluster.pull = () => Promise.reject(new Error('The registry is down.'));
    using _second = cluster.agent('n1', kernel);
    const [object] = await cluster.untilObjects(([one]) =>
      /it keeps running unchanged/.test(one?.status?.conditions?.[0]?.message ?? ''),
    );
    assert.equal(object?.status?.conditions?.[0]?.type, 'Loaded');
    assert.match(object?.status?.conditions?.[0]?.message ?? '', /The registry is down/);
    assert.equal(kernel.loads.length, 1);
  });

  deepTest('status written by the operator, and a cached image, cause no further reads', async () => {
    cluster.pull = async () => ({
      digest: 'sha256:1',
      bytes: async () => new Uint8Array(1),
      types: { count: 'xdp' },
    });
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    using _agent = cluster.agent('n1', kernel);
    await until(() => kernel.applied > 0);
    const beganMs = performance.now();
    const applied = kernel.applied;
    const image = { url: 'registry.example/team/count:v1' };
    await cluster.create('XdpProgram', 'count', xdp('', { bytecode: { image } }));
    await cluster.untilObjects(([one]) => one?.status?.conditions?.[0]?.type === 'Loaded');
    const { type } = parentKind('XdpProgram');
    for (let time = 0; time < 20; time++) {
      const annotations = { time: String(time) };
      const body = { metadata: { annotations } };
      await cluster.client.patch(type, { name: 'count' }, { type: 'merge', body });
    }
    // A real change: all earlier ones have been reported by then.
    await cluster.client.patch(type, { name: 'count' }, { type: 'merge', body: { spec: { priority: 7 } } });
    await until(() => {
      const [one] = kernel.programs.values();
      const attach = one?.desired.attach;
      return attach?.type === 'xdp' && attach.order.priority === 7;
    });
    // One for each change of what is asked for, and those that come with time.
    const passes = kernel.applied - applied;
    const max = 2 + Math.ceil((performance.now() - beganMs) / 5_000);
    assert.ok(passes <= max, `${passes} passes, at most ${max}`);
  });

  test('a program that cannot run says why, at the field and at its parent', async () => {
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    kernel.refused.set('kprobe', 'kprobe needs CONFIG_KPROBES, which this kernel has not.');
    using _operator = cluster.operator();
    using _agent = cluster.agent('n1', kernel);
    const rows: readonly [string, string, object, string, RegExp][] = [
      [
        'XdpProgram',
        'late',
        xdp(cluster.object, { interfaceselector: { interfaces: ['later0'] } }),
        'NotLoaded',
        /There is no interface later0\.\nRetrying\.$/,
      ],
      [
        'XdpProgram',
        'gone',
        xdp('/no/such/file.o'),
        'BytecodeSelectorError',
        /^spec\.bytecode\.path: .*\/no\/such\/file\.o.*ENOENT/,
      ],
      [
        'XdpProgram',
        'image',
        xdp('', { bytecode: { image: { url: 'registry.example/x' } } }),
        'BytecodeSelectorError',
        /^spec\.bytecode\.image: The registry is down\.\nRetrying\.$/,
      ],
      [
        'XdpProgram',
        'lonely',
        xdp(cluster.object, { mapownerselector: { matchLabels: { 'bpfman.io/ownedByProgram': 'nobody' } } }),
        'MapOwnerNotFound',
        /^spec\.mapownerselector selects no BpfProgram/,
      ],
      [
        'XdpProgram',
        'odd',
        xdp(cluster.object, { nodeselector: { matchExpressions: [{ key: 'a', operator: 'Near' }] } }),
        'NotLoaded',
        /^spec\.nodeselector of this XdpProgram: "Near" is not a valid/,
      ],
      [
        'KprobeProgram',
        'probe',
        {
          nodeselector: {},
          bpffunctionname: 'f',
          bytecode: { path: cluster.object },
          func_name: 'try_to_wake_up',
        },
        'NotLoaded',
        /CONFIG_KPROBES/,
      ],
    ];
    for (const [kind, name, spec] of rows) await cluster.create(kind, name, spec);
    for (const [kind, name, , type, pattern] of rows) {
      const text = await cluster.untilCondition(kind, name, 'ReconcileError');
      const object = (await cluster.objects()).find(
        ({ metadata }) => metadata.labels?.['bpfman.io/ownedByProgram'] === name,
      );
      const condition = object?.status?.conditions?.[0];
      assert.equal(condition?.type, type, name);
      assert.match(condition.message, pattern);
      assert.ok(text.includes(condition.message), `${name}: ${text}`);
    }
    // The interface comes, and the file.
    kernel.interfaces.add('later0');
    await cluster.untilCondition('XdpProgram', 'late', 'ReconcileSuccess');
  });

  test('a program shares the maps of the one that its selector selects', async () => {
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    using _operator = cluster.operator();
    using _agent = cluster.agent('n1', kernel);
    await cluster.create('XdpProgram', 'owner', xdp(cluster.object));
    const mapownerselector = { matchLabels: { 'bpfman.io/ownedByProgram': 'owner' } };
    await cluster.create('XdpProgram', 'user', xdp(cluster.object, { mapownerselector }));
    await cluster.untilCondition('XdpProgram', 'user', 'ReconcileSuccess');
    const of = (name: string) =>
      [...kernel.programs.values()].find(({ owner }) => owner === `XdpProgram/${name}`);
    assert.equal(of('user')?.desired.mapOwner, of('owner')?.id);
    assert.equal(of('owner')?.desired.mapOwner, undefined);
  });

  deepTest('a node that is not selected says so, and a change of its labels loads and unloads', async () => {
    await cluster.addNode('n1', { tier: 'edge' });
    await cluster.addNode('n2');
    const [one, two] = [new FixtureKernel(), new FixtureKernel()];
    using _operator = cluster.operator();
    using _first = cluster.agent('n1', one);
    using _second = cluster.agent('n2', two);
    await cluster.create(
      'XdpProgram',
      'edge',
      xdp(cluster.object, { nodeselector: { matchLabels: { tier: 'edge' } } }),
    );
    assert.equal(
      await cluster.untilCondition('XdpProgram', 'edge', 'ReconcileSuccess'),
      '1 program runs on n1.',
    );
    const objects = await cluster.objects();
    assert.deepEqual(
      objects
        .map(({ metadata, status }) => [
          metadata.labels?.['kubernetes.io/hostname'],
          status?.conditions?.[0]?.reason,
        ])
        .toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1)),
      [
        ['n1', 'bpfmanLoaded'],
        ['n2', 'nodeNotSelected'],
      ],
    );
    await cluster.client.patch(
      { group: '', version: 'v1', plural: 'nodes', kind: 'Node', namespaced: false },
      { name: 'n1' },
      { type: 'merge', body: { metadata: { labels: { tier: null } } } },
    );
    const text = await cluster.untilCondition('XdpProgram', 'edge', 'NotYetLoaded', undefined, /selects/);
    assert.equal(text, 'spec.nodeselector selects no node.');
    assert.equal(one.programs.size, 0);
  });

  deepTest('leftovers of a deleted node do not block deletion', async () => {
    await cluster.addNode('n1');
    await cluster.addNode('n2');
    using _operator = cluster.operator();
    const gone = cluster.agent('n1', new FixtureKernel());
    using _stays = cluster.agent('n2', new FixtureKernel());
    await cluster.create('XdpProgram', 'count', xdp(cluster.object));
    await cluster.untilCondition('XdpProgram', 'count', 'ReconcileSuccess');
    gone[Symbol.dispose]();
    await cluster.client.delete(
      { group: '', version: 'v1', plural: 'nodes', kind: 'Node', namespaced: false },
      { name: 'n1' },
    );
    await cluster.untilObjects((objects) => objects.length === 1);
    await cluster.client.delete(parentKind('XdpProgram').type, { name: 'count' });
    await until(async () => (await cluster.get('XdpProgram', 'count')) === undefined);
  });

  deepTest('a deleted BpfProgram is created again without touching the kernel', async () => {
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    using _agent = cluster.agent('n1', kernel);
    await cluster.create('XdpProgram', 'count', xdp(cluster.object));
    const [first] = await cluster.untilObjects(([one]) => one?.status?.conditions?.[0]?.type === 'Loaded');
    const { name = '', uid } = first?.metadata ?? {};
    await cluster.client.delete(nodeTypes.Cluster, { name });
    const [again] = await cluster.untilObjects(
      ([one]) => one?.metadata.uid !== uid && one?.status?.conditions?.[0]?.type === 'Loaded',
    );
    assert.equal(again?.metadata.name, name);
    assert.equal(kernel.loads.length, 1);
  });

  deepTest('a changed file is loaded again, and one that goes leaves the program running', async () => {
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    using _agent = cluster.agent('n1', kernel);
    await cluster.create('XdpProgram', 'count', xdp(cluster.object));
    await until(() => kernel.loads.length === 1);
    rmSync(cluster.object);
    await cluster.create('XdpProgram', 'wakes', xdp('/no/such/file.o'));
    await cluster.untilObjects((objects) =>
      objects.some(({ status }) => {
        const { type, message = '' } = status?.conditions?.[0] ?? {};
        return type === 'BytecodeSelectorError' && /ENOENT.*\nThe last version that ran, /s.test(message);
      }),
    );
    assert.equal(kernel.programs.size, 1);
    writeFileSync(cluster.object, 'another one');
    await until(() => kernel.loads.length === 2);
  });

  deepTest('a kernel that cannot be changed is reported, and objects stay until it can', async () => {
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    using _agent = cluster.agent('n1', kernel);
    await cluster.create('XdpProgram', 'count', xdp(cluster.object));
    await until(() => kernel.programs.size === 1);
    kernel.failure = new Error('bpf(2) answers ENOMEM');
    await cluster.client.delete(parentKind('XdpProgram').type, { name: 'count' }).catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
    });
    const [object] = await cluster.untilObjects(
      ([one]) => one?.status?.conditions?.[0]?.type === 'NotUnLoaded',
    );
    assert.match(object?.status?.conditions?.[0]?.message ?? '', /ENOMEM/);
    kernel.failure = undefined;
    await cluster.untilObjects((objects) => objects.length === 0);
    assert.equal(kernel.programs.size, 0);
  });

  test('changed globals, priority and direction are seen, and what the verifier refused is not asked of it again', async () => {
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    using _agent = cluster.agent('n1', kernel);
    const type = parentKind('TcProgram').type;
    await cluster.create('TcProgram', 'count', { ...xdp(cluster.object), direction: 'ingress' });
    await until(() => kernel.programs.size === 1);
    const change = async (spec: object): Promise<void> => {
      await cluster.client.patch(type, { name: 'count' }, { type: 'merge', body: { spec } });
    };
    const running = () => [...kernel.programs.values()][0]?.desired;
    await change({ globaldata: { limit: [1] } });
    await until(() => running()?.globals['limit']?.[0] === 1);
    await change({ globaldata: { limit: 'Ag==' }, priority: 7, direction: 'egress' });
    await until(() => {
      const { attach, globals } = running() ?? {};
      return (
        attach?.type === 'tc' &&
        attach.direction === 'egress' &&
        attach.order.priority === 7 &&
        globals?.['limit']?.[0] === 2
      );
    });

    kernel.refused.set('kprobe', 'invalid access to map value');
    await cluster.create('KprobeProgram', 'refused', {
      ...{ nodeselector: {}, bpffunctionname: 'f', bytecode: { path: cluster.object }, func_name: 'do_exit' },
    });
    await cluster.untilObjects((objects) =>
      objects.some(({ status }) => /invalid access/.test(status?.conditions?.[0]?.message ?? '')),
    );
    const asked = kernel.asked('kprobe');
    await change({ priority: 8 });
    await until(() => {
      const attach = running()?.attach;
      return attach?.type === 'tc' && attach.order.priority === 8;
    });
    assert.equal(kernel.asked('kprobe'), asked);
    const objects = await cluster.objects();
    assert.ok(objects.some(({ status }) => /invalid access/.test(status?.conditions?.[0]?.message ?? '')));
  });
});
