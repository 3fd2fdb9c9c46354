/** Monitor mode: what would be refused passes, and is counted and logged as such. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { scaled } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { datagram, etherTypes, interfaceOf, sendFrame } from '../../../test/network-policy/frames.fixture.ts';
import { icmpErrors, sendIcmpError } from '../../../test/network-policy/icmp.fixture.ts';
import { PacketCounter } from '../../../test/network-policy/packet-counter.fixture.ts';
import { reaches } from '../../../test/network-policy/probe.fixture.ts';
import type { Dataplane } from './dataplane.ts';
import { all, type DataplaneLab, egress, ingress } from './dataplane-lab.fixture.ts';
import { addressesOf, changeBetween, type GivenPolicy, nodeRules } from './rules.fixture.ts';

const monitored = (policy: GivenPolicy): GivenPolicy => ({ ...policy, mode: 'monitor' });
const named = (name: string, policy: GivenPolicy): GivenPolicy => ({ ...policy, policy: `x/${name}` });

type Probe = readonly [from: string, to: string, family: 4 | 6, protocol?: 'TCP' | 'UDP'];

/** `x/a ingress would-refuse 2`; without those that have counted nothing. */
async function countsOf(dataplane: Dataplane): Promise<string[]> {
  const counts = await dataplane.counters();
  return counts
    .filter(({ packets }) => packets > 0)
    .map(({ pod, direction, verdict, packets }) => `${pod} ${direction} ${verdict} ${packets}`)
    .sort();
}

export function monitorTests(lab: DataplaneLab): void {
  const { under, pods, open, withDataplane, expect } = lab;
  const reach = (...[from, to, family, protocol = 'TCP']: Probe): Promise<boolean> =>
    reaches(lab.network.host(from), lab.network.host(to).addresses[family], { family, protocol });
  const reached = async (probes: readonly Probe[]): Promise<boolean[]> => {
    const answers: boolean[] = [];
    for (const probe of probes) answers.push(await reach(...probe));
    return answers;
  };
  /**
   * To be called before the rules are there: what a host sends to one that it does not know yet may get lost, is sent again, and would be counted
   * twice. By datagrams: nothing of a connection comes later.
   */
  const meet = (probes: readonly Probe[]) =>
    reached(probes.map(([from, to, family]): Probe => [from, to, family, 'UDP']));

  test('packets that monitored policies do not allow pass and are counted; one enforced policy refuses them', () =>
    withDataplane(async (dataplane) => {
      const from = (name: string) => ({ peers: addressesOf(pods(name)), ports: 'any' }) as const;
      const rules = nodeRules(lab.network.pods, [
        monitored(ingress(['x/a'], from('y/a'))),
        monitored(named('more', ingress(['x/a'], from('y/b')))),
        monitored(egress(['x/b'])),
        // A mixed pod: one direction of each mode, and one policy of each mode in one direction.
        monitored(ingress(['x/c'], from('y/a'))),
        named('enforced', ingress(['x/c'], from('z/a'))),
        monitored(egress(['x/c'])),
      ]);
      const probes = [
        ['y/a', 'x/a', 4],
        ['y/b', 'x/a', 6],
        ['z/b', 'x/a', 4],
        ['z/b', 'x/a', 6, 'UDP'],
        ['x/b', 'z/b', 6],
        ['y/a', 'x/c', 4],
        ['z/b', 'x/c', 6],
        ['x/c', 'z/c', 4],
      ] as const;
      await meet(probes);
      await dataplane.sync(rules);
      assert.deepEqual(await dataplane.verify(), []);
      assert.deepEqual(await reached(probes), [true, true, true, true, true, true, false, true]);
      const counts = [
        'x/a ingress would-refuse 2',
        'x/b egress would-refuse 1',
        'x/c egress would-refuse 1',
        'x/c ingress refused 1',
      ];
      assert.deepEqual(await countsOf(dataplane), counts);
      using next = open();
      assert.deepEqual(await next.sync(rules), { commands: 0 });
      assert.deepEqual(await countsOf(next), counts);
      await expect(() => (from_, to) => to !== 'x/c' || ['y/a', 'z/a'].includes(from_));
    }));

  test('packets without a connection pass in monitor mode, and are not reported', () =>
    withDataplane(async (dataplane) => {
      await dataplane.sync(nodeRules(lab.network.pods, [monitored(ingress(['x/a']))]));
      const [from, to] = [lab.network.host('z/a'), lab.network.host('x/a')];
      using seen = new PacketCounter(to, { four: 'ip protocol icmp', six: 'icmpv6 type 1-4' });
      for (const family of [4, 6] as const) {
        for (const type of icmpErrors[family]) sendIcmpError(from, to.addresses[family], type);
      }
      for (const name of ['four', 'six']) await until(`ICMP errors, IPv${name}`, () => seen.count(name) > 0);
      assert.deepEqual(await countsOf(dataplane), []);
    }));

  test('monitor mode comes and goes without a moment in which something passes that is refused before and after', () =>
    withDataplane(async (dataplane) => {
      const { network } = lab;
      const [closed, more] = [ingress(['x/a']), named('more', ingress(['x/a', 'x/b']))];
      const states = [
        [closed, monitored(egress(['x/a'])), monitored(more)],
        [closed, egress(['x/a']), more],
        [monitored(closed), more],
        [closed, monitored(more)],
      ].map((policies) => nodeRules(network.pods, policies));
      let last = states[0]!;
      await dataplane.sync(last);
      let passed = 0;
      using _watch = network.watchUdp('x/a', () => passed++);
      // Each datagram is a connection of its own.
      const target = network.host('x/a').addresses[4];
      const sender = network.spawn(
        network.host('y/c'),
        `while :; do echo x > /dev/udp/${target}/80; done 2> /dev/null`,
      );
      try {
        await until('packets are refused', async () => (await countsOf(dataplane)).length > 0);
        for (let round = 0; round < scaled(40, 8); round++) {
          const next = states[(round + 1) % states.length]!;
          const { replacedBecause } = await dataplane.apply(next, changeBetween(last, next));
          assert.equal(replacedBecause, undefined);
          last = next;
          if (round < states.length) assert.deepEqual(await dataplane.verify(), []);
        }
      } finally {
        sender.kill('SIGKILL');
      }
      assert.equal(passed, 0);
      // With nothing left that is enforced, it passes.
      const none = nodeRules(network.pods, [monitored(closed)]);
      await dataplane.apply(none, changeBetween(last, none));
      assert.deepEqual(await dataplane.verify(), []);
      assert.ok(await reach('y/b', 'x/a', 4));
      const back = nodeRules(network.pods, [closed]);
      await dataplane.apply(back, changeBetween(none, back));
      assert.equal(await reach('y/b', 'x/a', 4), false);
      assert.deepEqual(await dataplane.verify(), []);
    }));

  test('pods that are not known yet pass, and are counted as what would be refused', () =>
    withDataplane(
      async (dataplane) => {
        const known = lab.network.pods.filter(({ name }) => name !== 'x/a' && name !== 'x/b');
        const probes = [
          ['x/a', 'y/a', 4],
          ['y/b', 'x/a', 6],
          ['x/a', 'x/b', 4],
          ['node', 'x/a', 4],
        ] as const;
        await meet(probes);
        await dataplane.sync(nodeRules(known, []));
        assert.deepEqual(await dataplane.verify(), []);
        assert.deepEqual(await reached(probes), [true, true, true, true]);
        assert.deepEqual(await countsOf(dataplane), [
          'undefined egress would-refuse 2',
          'undefined ingress would-refuse 2',
        ]);
        // Whoever forges the address of the node beyond it is not the node.
        const { node, outside } = lab.network;
        const forged = datagram(node.addresses[6], lab.network.host('x/a').addresses[6]);
        sendFrame(outside, interfaceOf(node, 'outside').mac, [etherTypes[6]], forged);
        await until('it is counted', async () =>
          (await countsOf(dataplane)).includes('undefined ingress would-refuse 3'),
        );
        await expect(() => all);
      },
      { unknownPods: 'monitor' },
    ));

  test('the prefix of a logged packet shows that it passed', () =>
    withDataplane(
      async (dataplane) => {
        await dataplane.sync(nodeRules(lab.network.pods, [monitored(ingress(['x/a'])), egress(['x/a'])]));
        const address = lab.network.host('x/a').addresses[4];
        const prefixes = under.listing(lab.network.node).matchAll(/(?:log prefix|nflog-prefix) "([^"]+)"/g);
        const owners = [...new Set([...prefixes].map(([, prefix = '']) => prefix))].map((prefix) =>
          dataplane.ownerOfLog(prefix, { source: address, destination: address }),
        );
        assert.deepEqual(
          owners.map((owner) => `${owner?.pod} ${owner?.direction} ${owner?.verdict}`).sort(),
          [
            'undefined egress would-refuse',
            'undefined ingress would-refuse',
            'x/a egress refused',
            'x/a ingress would-refuse',
          ],
        );
      },
      { unknownPods: 'monitor' },
    ));
}
