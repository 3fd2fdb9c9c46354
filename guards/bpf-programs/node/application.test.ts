import assert from 'node:assert/strict';
import { after, afterEach, before, suite, test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import type { NodeObject } from '../api.ts';
import { configType, stateTypes } from '../api.ts';
import { nodes } from '../../../lib/kube/object/object.ts';
import { otherNetwork, startPod } from './pods.fixture.ts';
import type { ApplicationStatus } from '../state-schema.ts';
import { parentKind } from '../parent-kind.fixture.ts';
import { FixtureKernel } from '../program-host.fixture.ts';
import { BpfCluster } from './node.fixture.ts';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';

const kind = 'ClusterBpfApplication';
const xdp = (name: string, ...links: object[]): object => ({ name, type: 'XDP', xdp: { links } });
const on = (name: string, more: object = {}): object => ({
  interfaceSelector: { interfaces: [name] },
  ...more,
});

suite('applications of v0.6 on nodes', () => {
  let cluster: BpfCluster;
  before(async () => void (cluster = await BpfCluster.start({ api: 'v0.6' })));
  afterEach(() => cluster.clear());
  after(() => cluster[Symbol.asyncDispose]());

  const spec = (...programs: object[]): object => ({
    nodeSelector: {},
    byteCode: { path: cluster.object },
    programs,
  });

  async function states(scope: 'Cluster' | 'Namespaced' = 'Cluster'): Promise<NodeObject[]> {
    return (await cluster.client.list(stateTypes[scope])).items;
  }

  /** The status of the one State object, when it has this condition. */
  async function untilState(
    type: string,
    says = /^/,
    scope: 'Cluster' | 'Namespaced' = 'Cluster',
  ): Promise<ApplicationStatus> {
    let found: ApplicationStatus | undefined;
    await until(`a State that is ${type} and says ${says}`, async () => {
      const [one] = await states(scope);
      found = one?.status as ApplicationStatus | undefined;
      const [condition] = found?.conditions ?? [];
      return condition?.type === type && says.test(condition.message);
    });
    assert.ok(found);
    return found;
  }

  const apply = (name: string, programs: object[]): Promise<void> => cluster.change(kind, name, { programs });

  test('its State says what became of each link as bpfman would, and nothing is left when it is deleted', async () => {
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    using _operator = cluster.operator();
    using _agent = cluster.agent('n1', kernel);
    const links = [on('eth0', { priority: 55 }), on('eth1')];
    const parent = await cluster.create(kind, 'count', spec(xdp('xdp_count', ...links)));
    const text = await cluster.untilCondition(kind, 'count', 'Success');
    assert.equal(text, '1 program is loaded and 2 links are attached on n1.');
    const [object, ...more] = await states();
    assert.deepEqual(more, []);
    assert.ok(object);
    const { metadata } = object;
    assert.match(metadata.name ?? '', /^count-[0-9a-f]{8}$/);
    assert.deepEqual(metadata.labels, {
      'bpfman.io/ownedByProgram': 'count',
      'kubernetes.io/hostname': 'n1',
    });
    assert.deepEqual(metadata.finalizers, ['bpfman.io.clbpfapplicationcontroller/finalizer']);
    assert.deepEqual(
      metadata.ownerReferences?.map(({ kind: of, uid, controller }) => ({ of, uid, controller })),
      [{ of: kind, uid: parent.metadata.uid, controller: true }],
    );
    const { conditions, programs = [], updateCount, ...status } = object.status as ApplicationStatus;
    assert.deepEqual(status, { node: 'n1', appLoadStatus: 'LoadSuccess', failures: [] });
    assert.ok(updateCount >= 1);
    assert.deepEqual(
      conditions?.map(({ type, reason, status: is }) => [type, reason, is]),
      [['Success', 'Success', 'True']],
    );
    assert.match(
      conditions[0]?.message ?? '',
      /^xdp_count of sha256:[0-9a-f]{64} runs as program 100\nxdp_count of sha256:[0-9a-f]{64} runs as program 101$/,
    );
    const uuids = programs[0]?.xdp?.links.map(({ uuid }) => uuid) ?? [];
    assert.ok(
      uuids.every((uuid) => /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/.test(uuid)),
    );
    const link = (at: number, interfaceName: string, priority: number): object => ({
      ...{
        interfaceName,
        priority,
        linkId: Number.parseInt(uuids[at]?.slice(0, 8) ?? '', 16) >>> 1,
        uuid: uuids[at],
        shouldAttach: true,
        linkStatus: 'Attached',
      },
      proceedOn: ['Pass', 'DispatcherReturn'],
    });
    assert.deepEqual(programs, [
      {
        ...{ name: 'xdp_count', type: 'XDP', programId: 100, programLinkStatus: 'Success' },
        xdp: { links: [link(0, 'eth0', 55), link(1, 'eth1', 1000)] },
      },
    ]);
    assert.deepEqual(
      [...kernel.programs.values()].map(({ owner, desired }) => [owner, desired.attach]),
      [
        ['eth0', 55],
        ['eth1', 1000],
      ].map(([name, priority]) => [
        `${kind}/count`,
        {
          type: 'xdp',
          hook: { interface: name, container: undefined },
          order: { priority, proceedOn: 0x8000_0004 },
        },
      ]),
    );

    await cluster.client.delete(parentKind(kind).type, { name: 'count' });
    await until(async () => (await cluster.get(kind, 'count')) === undefined);
    assert.equal(kernel.programs.size, 0);
    assert.deepEqual(await states(), []);
  });

  deepTest(
    "links may change, others' changes to a State are undone, and a restart repeats no failure",
    async () => {
      await cluster.addNode('n1');
      const kernel = new FixtureKernel();
      using _operator = cluster.operator();
      const first = cluster.agent('n1', kernel);
      await cluster.create(kind, 'links', spec({ name: 'f', type: 'XDP', xdp: { links: null } }));
      const loaded = await untilState(
        'Success',
        /^f of sha256:[0-9a-f]+ is loaded, and attached to nothing, as/,
      );
      assert.deepEqual(
        loaded.programs?.map(({ programId, xdp: of }) => [programId, of]),
        [[100, { links: [] }]],
      );
      await apply('links', [xdp('f', on('eth0'), on('eth9'))]);
      const failed = await untilState('Error', /There is no interface eth9\./);
      assert.equal(failed.appLoadStatus, 'LoadSuccess');
      assert.deepEqual(
        failed.programs?.[0]?.xdp?.links.map(({ linkStatus }) => linkStatus),
        ['Attached', 'AttachError'],
      );
      await cluster.untilCondition(
        kind,
        'links',
        'Error',
        undefined,
        /^n1: links-[0-9a-f]{8}: Error: .*eth9/,
      );
      const [state] = await states();
      const { name = '' } = state?.metadata ?? {};
      const body = { status: { node: 'elsewhere', appLoadStatus: 'LoadError', programs: [] } };
      const target = { name, subresource: 'status' };
      await cluster.client.patch(stateTypes.Cluster, target, { type: 'merge', body });
      await until('the status', async () => {
        const [one] = await states();
        assert.ok(one);
        const { node, updateCount, ...rest } = one.status as ApplicationStatus;
        if (node !== 'n1') return false;
        const { updateCount: last, node: _node, ...was } = failed;
        assert.deepEqual(rest, was);
        return updateCount === last + 1;
      });
      assert.equal(cluster.lines.length, 1);
      first[Symbol.dispose]();
      using _second = cluster.agent('n1', kernel);
      await apply('links', [xdp('f', on('eth0', { priority: 7 }))]);
      await untilState('Success');
      // The failure was reported once, and later ones of removed parts are not.
      assert.equal(cluster.lines.length, 1);
      const { verdict, object } = JSON.parse(cluster.lines[0] ?? '') as { verdict: string; object: unknown };
      assert.equal(verdict, 'not-loaded');
      assert.deepEqual(object, { kind: 'ClusterBpfApplicationState', namespace: '', name });
    },
  );

  deepTest('a node that is not selected has no programs, which is not a failure', async () => {
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    using _operator = cluster.operator();
    using _agent = cluster.agent('n1', kernel);
    const nodeSelector = { matchLabels: { zone: 'edge' } };
    await cluster.create(kind, 'away', { ...spec(xdp('f', on('eth0'))), nodeSelector });
    const text = await cluster.untilCondition(kind, 'away', 'Success');
    assert.equal(text, 'It runs on no node: spec.nodeSelector selects none.');
    const { appLoadStatus } = await untilState('Success', /spec\.nodeSelector does not select this node/);
    assert.equal(appLoadStatus, 'NotSelected');
    assert.equal(kernel.programs.size, 0);
    await cluster.client.patch(
      nodes,
      { name: 'n1' },
      {
        type: 'merge',
        body: { metadata: { labels: { zone: 'edge' } } },
      },
    );
    await untilState('Success', /runs as program/);
  });

  test('the status of a Config says that it is not used', async () => {
    using _operator = cluster.operator();
    const image = { image: 'registry.example/bpfman' };
    const config = {
      metadata: { name: 'bpfman-config' },
      spec: { agent: image, daemon: image, configuration: '-' },
    };
    await cluster.client.create(configType, config);
    await until('the condition', async () => {
      const { status } = await cluster.client.get(configType, { name: 'bpfman-config' });
      return status?.conditions?.some(({ type, reason }) => type === 'Used' && reason === 'NotUsed') ?? false;
    });
    await cluster.client.delete(configType, { name: 'bpfman-config' });
  });

  test('a namespaced application is in the pods of its namespace, once in each network, and never on the node', async () => {
    await using stack = new AsyncDisposableStack();
    cluster.pull = async () => ({ digest: 'sha256:1', bytes: async () => new Uint8Array(1) });
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    const pids = [await otherNetwork(stack), await otherNetwork(stack)] as const;
    await startPod(cluster, {
      ...{ namespace: 'acme', name: 'web', app: 'web' },
      pid: pids[0],
      containers: ['app', 'log'],
    });
    await startPod(cluster, {
      ...{ namespace: 'other', name: 'web', app: 'web' },
      pid: pids[1],
      containers: ['app'],
    });
    await startPod(cluster, {
      ...{ namespace: 'acme', name: 'host', app: 'host' },
      pid: process.pid,
      containers: ['app'],
    });
    cluster.containers.answer();
    stack.use(cluster.operator());
    stack.use(cluster.agent('n1', kernel));
    const selecting = (app: string): object => ({ networkNamespaces: { pods: { matchLabels: { app } } } });
    const target = { target: 'libc', function: 'malloc', containers: { pods: {}, containerNames: ['log'] } };
    const programs = [
      xdp('f', on('eth0', selecting('web'))),
      { name: 'g', type: 'UProbe', uprobe: { links: [target] } },
    ];
    const byteCode = { image: { url: 'registry.example/team/count:v1' } };
    const type = parentKind('BpfApplication', 'v0.6');
    const metadata = { name: 'pods', namespace: 'acme' };
    const object = { metadata, spec: { nodeSelector: {}, byteCode, programs } };
    await cluster.client.create(type.type, object as never);
    const state = await untilState('Success', /^/, 'Namespaced');
    assert.deepEqual(
      state.programs?.map(({ name, xdp: packets, uprobe }) => [
        name,
        ...(packets?.links ?? uprobe?.links ?? []).map((link) => link['netnsPath'] ?? link['containerPid']),
      ]),
      [
        ['f', `/proc/${pids[0]}/ns/net`],
        ['g', pids[0]],
      ],
    );
    assert.deepEqual(
      [...kernel.programs.values()].map(({ owner, desired }) => [owner, desired.namespace]),
      [
        ['BpfApplication/acme/pods', 'acme'],
        ['BpfApplication/acme/pods', 'acme'],
      ],
    );
    const body = { spec: { programs: [xdp('f', on('eth0', selecting('host')))] } };
    await cluster.client.patch(type.type, metadata, { type: 'merge', body });
    const refused = await untilState(
      'Error',
      /Pod acme\/host uses the node's network.*or use ClusterBpfApplication\./,
      'Namespaced',
    );
    assert.equal(refused.programs?.[0]?.programLinkStatus, 'UpdateAttachInfoError');
    assert.deepEqual(refused.programs[0].xdp, { links: [] });
  });
});
