/** Packets through a Service, and within one bridge. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { sampled } from '../../../lib/testing/depth.fixture.ts';
import { type Host, Network } from '../../../test/network-policy/network.fixture.ts';
import { connects, reachable, reaches } from '../../../test/network-policy/probe.fixture.ts';
import { type DataplaneLab, egress, everyProbe, inNamespace, ingress } from './dataplane-lab.fixture.ts';
import { addressesOf, nodeRules } from './rules.fixture.ts';

export function serviceTests(lab: DataplaneLab): void {
  const { under, pods, withDataplane } = lab;

  test('a NodePort of its own node leads no pod past its rules', async () => {
    const [allowed, refused, local] = [30_080, 30_081, 30_082];
    under.addNodePort(lab.network.node, allowed, lab.network.host('y/a').addresses[4], 80);
    under.addNodePort(lab.network.node, refused, lab.network.host('z/a').addresses[4], 80);
    under.addNodePort(lab.network.node, local, '10.1.0.1', 80);
    const nodePorts = (from: Host) =>
      Promise.all(
        [allowed, refused, local].map((each) => reaches(from, lab.network.node.addresses[4], { port: each })),
      );
    assert.deepEqual(await nodePorts(lab.network.host('x/a')), [true, true, true]);
    await withDataplane(async (dataplane) => {
      await dataplane.sync(
        nodeRules(lab.network.pods, [egress(['x/a'], { peers: addressesOf(pods('y/a')), ports: 'any' })]),
      );
      assert.deepEqual(await nodePorts(lab.network.host('x/a')), [true, false, false]);
      assert.deepEqual(await nodePorts(lab.network.host('x/b')), [true, true, true]);
    });
  });

  test('a Service leads a pod back to itself, whatever its rules', async () => {
    under.addNodePort(lab.network.node, 30_090, lab.network.host('x/a').addresses[4], 80);
    await withDataplane(async (dataplane) => {
      await dataplane.sync(nodeRules(lab.network.pods, [egress(['x/a']), ingress(['x/a'])]));
      assert.ok(await reaches(lab.network.host('x/a'), lab.network.node.addresses[4], { port: 30_090 }));
      assert.ok(!(await reaches(lab.network.host('x/b'), lab.network.node.addresses[4], { port: 30_090 })));
    });
  });

  test('pods of one bridge, with br_netfilter', async (t) => {
    await using bridged = await Network.create({ bridge: true });
    if (!bridged.filterBridge()) {
      t.skip('this kernel has no br_netfilter');
      return;
    }
    const from = bridged.pods.filter(({ name }) => inNamespace(name, 'y'));
    using dataplane = bridged.node.namespace.run(() => under.open());
    await dataplane.sync(
      nodeRules(bridged.pods, [
        ingress(['x/a'], { peers: addressesOf(from), ports: 'any' }),
        // It still answers who asks for its address.
        egress(['x/a']),
      ]),
    );
    for (const options of sampled(everyProbe, 1)) {
      const found = [...(await reachable(bridged.pods, options))].filter((pair) => pair.endsWith(' -> x/a'));
      assert.deepEqual(found.sort(), ['y/a -> x/a', 'y/b -> x/a', 'y/c -> x/a'], JSON.stringify(options));
    }
    // In monitor mode, each connection is counted once.
    const monitored = { mode: 'monitor' } as const;
    await dataplane.sync(
      nodeRules(bridged.pods, [
        { ...ingress(['x/b']), ...monitored },
        { ...egress(['z/a']), ...monitored },
      ]),
    );
    assert.ok(await reaches(bridged.host('y/a'), bridged.host('x/b').addresses[4]));
    assert.ok(await reaches(bridged.host('z/a'), bridged.host('x/c').addresses[6], { family: 6 }));
    const counts = await dataplane.counters();
    assert.deepEqual(
      counts
        .map(({ pod, direction, verdict, packets }) => `${pod} ${direction} ${verdict} ${packets}`)
        .sort(),
      ['x/b ingress would-refuse 1', 'z/a egress would-refuse 1'],
    );
  });

  for (const bridge of sampled([false, true], 1)) {
    test(`a client that is refused through a Service gets an error; pods ${bridge ? 'of one bridge' : 'with a route each'}`, async (t) => {
      await using fresh = await Network.create({ bridge });
      if (bridge && !fresh.filterBridge()) {
        t.skip('this kernel has no br_netfilter');
        return;
      }
      const services = fresh.addServices(['x/a', 'x/b']);
      using dataplane = fresh.node.namespace.run(() => under.open());
      await dataplane.sync(nodeRules(fresh.pods, [ingress(['x/a']), egress(['y/b'])]));
      const reported: string[] = [];
      const expected: string[] = [];
      for (const [from, to] of [
        ['y/a', 'x/a'],
        ['outside', 'x/a'],
        ['y/b', 'x/b'],
        ['y/a', 'x/b'],
      ] as const) {
        for (const protocol of ['TCP', 'UDP'] as const) {
          for (const family of [4, 6] as const) {
            const name = `${from} -> ${to} ${protocol} IPv${family}`;
            const address = services.get(to)?.[family] ?? '';
            reported.push(`${name}: ${await connects(fresh.host(from), address, 80, protocol)}`);
            expected.push(`${name}: ${from === 'y/a' && to === 'x/b' ? 'answered' : 'refused'}`);
          }
        }
      }
      assert.deepEqual(reported, expected);
    });
  }
}
