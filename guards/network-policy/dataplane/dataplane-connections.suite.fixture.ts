/** Connections that are open when the rules change, and ICMP errors about them. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import {
  datagram,
  etherTypes,
  interfaceOf,
  macTowards,
  sendFrame,
  synFin,
} from '../../../test/network-policy/frames.fixture.ts';
import { icmpErrors, sendIcmpError } from '../../../test/network-policy/icmp.fixture.ts';
import { type Host, Network } from '../../../test/network-policy/network.fixture.ts';
import { PacketCounter } from '../../../test/network-policy/packet-counter.fixture.ts';
import { connects, reaches } from '../../../test/network-policy/probe.fixture.ts';
import { type DataplaneLab, egress, ingress } from './dataplane-lab.fixture.ts';
import { addressesOf, changeBetween, nodeRules, port } from './rules.fixture.ts';

/** For what is lost where it should not be: a test that fails ends, too. */
const answerTimeoutMs = 10_000;

export function connectionTests(lab: DataplaneLab): void {
  const { under, pods, withDataplane } = lab;

  for (const unknownPods of ['allow', 'deny'] as const) {
    test(`ICMP errors pass only for a connection; unknown pods: ${unknownPods}`, () =>
      withDataplane(
        async (dataplane) => {
          const known = lab.network.pods.filter(({ name }) => unknownPods === 'allow' || name !== 'x/a');
          const reached = egress(['x/a'], { peers: addressesOf(pods('y/a')), ports: 'any' });
          await dataplane.sync(nodeRules(known, [ingress(['x/a']), reached, egress(['y/b'])]));
          const passed: string[] = [];
          for (const [from, to] of [
            ['z/a', 'x/a'],
            ['outside', 'x/a'],
            ['y/b', 'z/a'],
            ['y/b', 'outside'],
            ['y/b', 'node'],
            ['x/a', 'z/b'],
          ] as const) {
            const icmp = { four: 'ip protocol icmp', six: 'icmpv6 type 1-4' };
            using seen = new PacketCounter(lab.network.host(to), icmp);
            for (const family of [4, 6] as const) {
              for (const type of icmpErrors[family]) {
                sendIcmpError(lab.network.host(from), lab.network.host(to).addresses[family], type);
              }
            }
            for (const name of ['four', 'six'])
              if (seen.count(name) > 0) passed.push(`${from} -> ${to} ${name}`);
          }
          assert.deepEqual(passed, []);
          // A port without a listener is reported at once, past rules that let nothing in.
          await dataplane.sync(nodeRules(lab.network.pods, [ingress(['y/a'])]));
          for (const family of [4, 6] as const) {
            const { addresses } = lab.network.host('z/a');
            assert.equal(await connects(lab.network.host('y/a'), addresses[family], 9, 'UDP'), 'refused');
          }
        },
        { unknownPods },
      ));
  }

  test('an isolated pod sends ICMP errors about its own connections only', () =>
    withDataplane(async (dataplane) => {
      const { network } = lab;
      const [isolated, peer, outside] = ['x/a', 'y/a', 'outside'].map((name) => network.host(name)) as [
        Host,
        Host,
        Host,
      ];
      // The peer is isolated too, so that its rules do not let through what those of the other refuse.
      const everybody = { peers: 'everyone', ports: 'any' } as const;
      await dataplane.sync(
        nodeRules(network.pods, [
          egress(['x/a'], { peers: 'everyone', ports: [port('UDP', 80)] }),
          ingress(['y/a'], everybody),
          egress(['y/a'], everybody),
        ]),
      );
      const refused = async (): Promise<number> =>
        (await dataplane.counters()).reduce((sum, { packets }) => sum + packets, 0);
      const { mac } = interfaceOf(network.node, 'outside');
      const towards = {
        'x/a': interfaceOf(network.node, 'pod0').mac,
        'y/a': interfaceOf(network.node, 'pod3').mac,
      };
      for (const family of [4, 6] as const) {
        const [own, other, foreign] = [isolated, peer, outside].map(({ addresses }) => addresses[family]) as [
          string,
          string,
          string,
        ];
        const lost = {
          'foreign to other': datagram(foreign, other),
          'own to other': datagram(own, other),
          'foreign to own': datagram(foreign, own),
        };
        sendFrame(outside, mac, [etherTypes[family]], lost['foreign to other']);
        sendFrame(outside, mac, [etherTypes[family]], lost['foreign to own']);
        sendFrame(isolated, towards['x/a'], [etherTypes[family]], lost['own to other']);
        /** The fate of an error about a connection of the isolated pod. */
        const fate = async (to: Host, about: Buffer): Promise<string> => {
          using seen = new PacketCounter(to, {
            error: family === 4 ? 'icmp type destination-unreachable' : 'icmpv6 type destination-unreachable',
          });
          const before = await refused();
          sendIcmpError(isolated, to.addresses[family], family === 4 ? 3 : 1, about);
          return await until('what becomes of it', async () => {
            if (seen.count('error') > 0) return 'arrived';
            return (await refused()) > before ? 'refused' : undefined;
          });
        };
        const answer = datagram(other, own, [80, 40_000]);
        assert.equal(await fate(peer, answer), 'arrived', 'of the client');
        assert.equal(await fate(outside, lost['foreign to own']), 'arrived', 'of the server');
        assert.equal(await fate(outside, lost['foreign to other']), 'refused', 'of others');
        assert.equal(
          await fate(peer, datagram(other, foreign, [80, 40_000])),
          'refused',
          'of a pod of the node',
        );
      }
    }));

  test('packets without a connection do not pass an isolated pod, whatever its policies allow, and are not counted', () =>
    withDataplane(async (dataplane) => {
      const { network } = lab;
      const everybody = { peers: 'everyone', ports: 'any' } as const;
      await dataplane.sync(
        nodeRules(network.pods, [
          ingress(['x/a'], everybody),
          egress(['y/b'], everybody),
          { ...ingress(['x/b'], everybody), mode: 'monitor' },
        ]),
      );
      const passed: string[] = [];
      for (const [from, to] of [
        ['y/a', 'x/a'],
        ['y/b', 'z/a'],
        ['y/a', 'x/b'],
        ['y/a', 'z/b'],
      ] as const) {
        const [sender, receiver] = [network.host(from), network.host(to)];
        using seen = new PacketCounter(receiver, { invalid: 'tcp dport 80', last: 'udp dport 80' });
        const mac = macTowards(network, sender, receiver, false);
        for (const family of [4, 6] as const) {
          const ends = [sender.addresses[family], receiver.addresses[family]] as const;
          const before = [seen.count('invalid'), seen.count('last')] as const;
          sendFrame(sender, mac, [etherTypes[family]], synFin(...ends));
          sendFrame(sender, mac, [etherTypes[family]], datagram(...ends));
          await until('the datagram behind it', async () => seen.count('last') > before[1]);
          if (seen.count('invalid') > before[0]) passed.push(`${from} -> ${to} ${family}`);
        }
      }
      assert.deepEqual(passed, ['y/a -> x/b 4', 'y/a -> x/b 6', 'y/a -> z/b 4', 'y/a -> z/b 6']);
      assert.equal(
        (await dataplane.counters()).reduce((sum, { packets }) => sum + packets, 0),
        0,
      );
    }));

  test('whoever forges the address of the node beyond it is not the node', () =>
    withDataplane(
      async (dataplane) => {
        const { network } = lab;
        const known = network.pods.filter(({ name }) => name !== 'z/a');
        await dataplane.sync(nodeRules(known, [ingress(['x/a'])]));
        const refused = async (): Promise<number> =>
          (await dataplane.counters()).reduce((sum, { packets }) => sum + packets, 0);
        // Over IPv4, the kernel itself drops what comes from its own addresses.
        for (const name of ['x/a', 'z/a']) {
          const pod = network.host(name);
          using seen = new PacketCounter(pod, { six: 'udp dport 80' });
          const before = await refused();
          const { mac } = interfaceOf(network.node, 'outside');
          sendFrame(
            network.outside,
            mac,
            [etherTypes[6]],
            datagram(network.node.addresses[6], pod.addresses[6]),
          );
          const fate = await until('what becomes of it', async () => {
            if (seen.count('six') > 0) return 'arrived';
            return (await refused()) > before ? 'refused' : undefined;
          });
          assert.equal(fate, 'refused', name);
          assert.ok(await reaches(network.node, pod.addresses[6], { family: 6 }));
        }
      },
      { unknownPods: 'deny' },
    ));

  test('a connection goes on over every change, also where it would not be allowed anew', () =>
    withDataplane(async (dataplane) => {
      const open80 = nodeRules(lab.network.pods, []);
      const closed = nodeRules(lab.network.pods, [ingress(['x/a']), egress(['y/a'])]);
      await dataplane.sync(open80);
      const socket = await lab.network
        .host('y/a')
        .namespace.runTick(() => connect({ host: lab.network.host('x/a').addresses[4], port: 80 }));
      try {
        const echoes = async (): Promise<void> => {
          const answer = once(socket, 'data', { signal: AbortSignal.timeout(answerTimeoutMs) });
          socket.write('!');
          await answer;
        };
        await echoes();
        await dataplane.apply(closed, changeBetween(open80, closed));
        assert.ok(!(await reaches(lab.network.host('y/a'), lab.network.host('x/a').addresses[4])));
        await echoes();
        await dataplane.sync(closed);
        await echoes();
      } finally {
        socket.destroy();
      }
    }));

  test('idle: nothing is refused, and open connections continue when rules come', async () => {
    // In which nothing else has the kernel track connections.
    await using fresh = await Network.create();
    using dataplane = fresh.node.namespace.run(() => under.open());
    assert.equal(await dataplane.isEnforcing(), false);
    await dataplane.idle();
    assert.equal(await dataplane.isEnforcing(), false);
    const [pod, peer] = [fresh.host('x/a'), fresh.host('y/a')];
    const opened: Socket[] = [];
    try {
      for (const family of [4, 6] as const) {
        for (const [from, to] of [
          [peer, pod],
          [pod, peer],
          [fresh.outside, pod],
        ] as const) {
          const host = to.addresses[family];
          opened.push(await from.namespace.runTick(() => connect({ host, port: 80 })));
        }
      }
      const echoes = async (socket: Socket): Promise<void> => {
        const answer = once(socket, 'data', { signal: AbortSignal.timeout(answerTimeoutMs) });
        socket.write('!');
        await answer;
      };
      for (const socket of opened) await echoes(socket);
      await dataplane.sync(nodeRules(fresh.pods, [ingress(['x/a']), egress(['x/a'])]));
      assert.equal(await dataplane.isEnforcing(), true);
      assert.equal(await reaches(peer, pod.addresses[4]), false);
      for (const socket of opened) await echoes(socket);
      await dataplane.idle();
      assert.equal(await dataplane.isEnforcing(), false);
      assert.ok(await reaches(peer, pod.addresses[4]));
      assert.notDeepEqual(await dataplane.remove(), []);
      assert.deepEqual(await dataplane.remove(), []);
    } finally {
      for (const socket of opened) socket.destroy();
    }
  });
}
