import assert from 'node:assert/strict';
import { after, afterEach, before, suite, test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import type { NodeObject } from '../api.ts';
import { stateTypes } from '../api.ts';
import type { ApplicationStatus } from '../state-schema.ts';
import { parentKind } from '../parent-kind.fixture.ts';
import { FixtureKernel } from '../program-host.fixture.ts';
import { BpfCluster } from './node.fixture.ts';

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
    assert.deepEqual(status, { node: 'n1', appLoadStatus: 'LoadSuccess' });
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
});
