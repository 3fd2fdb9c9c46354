// An application of v0.6 by the whole part of a node and the real kernel, also in other kernels than the machine's (test/kernel).
import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';

import { probeFeatures } from '../../../lib/ebpf/features/features.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { countObject } from '../image.fixture.ts';
import { cable, Lab, NAME, obstacle, ownNetwork, send } from '../kernel/lab.fixture.ts';
import { readPrograms } from '../kernel/running/programs.ts';
import { parentKind } from '../parent-kind.fixture.ts';
import { FixtureKernel } from '../program-host.fixture.ts';
import { BpfCluster } from './node.fixture.ts';

const kind = 'ClusterBpfApplication';
const hasTcx = probeFeatures(['tcx']).attach.tcx.available;

suite('an application of v0.6 in the kernel', { skip: obstacle() ?? false }, () => {
  before(() => {
    ownNetwork();
    cable('app0', 'app1');
  });

  test('its programs share their maps on all links, and go with it', async () => {
    await using lab = new Lab();
    await using cluster = await BpfCluster.start({ api: 'v0.6' });
    await cluster.addNode('n1');
    using _operator = cluster.operator();
    using _agent = cluster.agent('n1', new FixtureKernel(), () => lab.another());
    const on = (more: object = {}): object => ({
      links: [{ interfaceSelector: { interfaces: ['app0'] }, ...more }],
    });
    const ingress = { direction: 'Ingress' };
    const programs = [
      { name: 'xdp_count', type: 'XDP', xdp: on() },
      { name: 'tc_count', type: 'TC', tc: on(ingress) },
      ...(hasTcx ? [{ name: 'tc_count', type: 'TCX', tcx: on(ingress) }] : []),
    ];
    await cluster.create(kind, 'count', { nodeSelector: {}, byteCode: { path: countObject }, programs });
    const text = await cluster.untilCondition(kind, 'count', 'Success');
    const are = `${programs.length} programs are loaded and ${programs.length} links are attached on n1.`;
    assert.equal(text.slice(0, are.length), are);
    const running = readPrograms({ bpffs: lab.bpffs, name: NAME, stateDirectory: lab.state });
    const own = `${kind}/count`;
    assert.deepEqual(
      running.map(({ type, owner, attachPoint }) => `${type} ${owner} ${attachPoint}`).toSorted(),
      [`tc ${own} app0 ingress`, ...(hasTcx ? [`tcx ${own} app0 ingress`] : []), `xdp ${own} app0`],
    );
    assert.equal(new Set(running.map(({ mapIds }) => mapIds.join())).size, 1);
    const counted = (): number[] => running.map(({ id }) => lab.counted(id));
    send('app1', 10);
    // One map, which each program counts in.
    assert.deepEqual(
      counted(),
      running.map(() => 10 * running.length),
    );

    await cluster.client.delete(parentKind(kind).type, { name: 'count' });
    await until('it is gone', async () => (await cluster.get(kind, 'count')) === undefined);
    assert.deepEqual(readPrograms({ bpffs: lab.bpffs, name: NAME, stateDirectory: lab.state }), []);
    send('app1', 1);
  });
});
