// A pod sends as itself: packets with another source are refused where its interface is, whatever programs the policies.
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { sampled } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { namespaces } from '../../lib/kube/object/object.ts';
import { openIptablesDataplane } from '../../guards/network-policy/dataplane/iptables/dataplane.ts';
import { iptablesObstacle } from '../../guards/network-policy/dataplane/iptables/obstacle.fixture.ts';
import { openNftablesDataplane } from '../../guards/network-policy/dataplane/nftables/dataplane.ts';
import { anySourceLabel } from '../../guards/network-policy/node/sources/source-check.ts';
import { derivedAddress } from '../../guards/network-policy/node/sources/pod-interfaces.ts';
import {
  allNodesMac,
  datagram,
  etherTypes,
  interfaceOf,
  macTowards,
  routerAdvertisement,
  sendFrame,
} from './frames.fixture.ts';
import { PacketCounter } from './packet-counter.fixture.ts';
import {
  dropAddress,
  foreignAddress,
  refusedSources,
  sendAs,
  sourceTableOf,
  takeAddress,
  unusedAddress,
} from './forging.fixture.ts';
import { namespaceObstacle } from './namespaces.fixture.ts';
import type { Host } from './network.fixture.ts';
import { PolicyNode } from './policy-node.fixture.ts';
import { reaches } from './probe.fixture.ts';

const families = [4, 6] as const;
const backends = [
  { backend: 'nftables', open: openNftablesDataplane, skip: namespaceObstacle() },
  {
    backend: 'iptables',
    open: (options: object = {}) => openIptablesDataplane({ ...options, variant: 'nft' }),
    skip: iptablesObstacle('nft'),
  },
] as const;

/** x/a may send to y/a alone; x/b is reached from y/a alone. */
async function isolate(node: PolicyNode): Promise<void> {
  const pod = (name: string, namespace: string) => ({
    podSelector: { matchLabels: { pod: name } },
    namespaceSelector: { matchLabels: { ns: namespace } },
  });
  await node.apply('x/a-out', {
    podSelector: { matchLabels: { pod: 'a' } },
    policyTypes: ['Egress'],
    egress: [{ to: [pod('a', 'y')] }],
  });
  await node.apply('x/b-in', {
    podSelector: { matchLabels: { pod: 'b' } },
    policyTypes: ['Ingress'],
    ingress: [{ from: [pod('a', 'y')] }],
  });
}

/** As flannel has it: one VXLAN, whose packets come from any node. */
const tunnel = { device: 'tunnel', port: 8472, header: Buffer.of(8, 0, 0, 0, 0, 0, 1, 0) } as const;

/** @returns false where the kernel has none */
function addTunnel({ namespace }: Host): boolean {
  try {
    namespace.ip(
      `link add ${tunnel.device} type vxlan id 1 local 10.7.0.1 dstport ${tunnel.port} nolearning`,
      `link set ${tunnel.device} up`,
    );
    return true;
  } catch {
    return false;
  }
}

const networks = backends.flatMap((one) => [false, true].map((bridge) => ({ ...one, bridge })));

for (const { backend, open, skip, bridge } of sampled(networks, 1)) {
  suite(
    `sources of packets, ${backend}, pods ${bridge ? 'on a bridge' : 'with routes'}`,
    { skip: skip ?? false },
    () => {
      let node: PolicyNode;
      let stop: () => Promise<void>;
      let hasTunnel = false;
      before(async () => {
        node = await PolicyNode.create({ open, bridge });
        if (bridge) node.network.filterBridge();
        if (backend === 'nftables') hasTunnel = addTunnel(node.network.node);
        await isolate(node);
        stop = await node.start();
        await untilChains(9);
      });
      after(async () => {
        await stop();
        await node[Symbol.asyncDispose]();
      });
      const host = (name: string) => node.network.host(name);
      const untilChains = (count: number) =>
        until(`${count} chains`, () => sourceTableOf(node.network).match(/hook ingress/g)?.length === count);
      const forge = async (from: string, source: string, to: string) => {
        takeAddress(host(from), source);
        try {
          return await sendAs(node.network, host(from), source, host(to));
        } finally {
          dropAddress(host(from), source);
        }
      };

      for (const family of families) {
        test(`sources of an isolated pod: its own, and no others, IPv${family}`, async () => {
          const own = host('x/a').addresses[family];
          assert.equal(await sendAs(node.network, host('x/a'), own, host('y/a')), 'arrived');
          for (const source of [
            host('z/a').addresses[family],
            unusedAddress[family],
            foreignAddress[family],
            node.network.node.addresses[family],
          ]) {
            assert.equal(await forge('x/a', source, 'y/b'), 'refused', source);
          }
          assert.ok(await reaches(host('x/a'), host('y/a').addresses[family], { family }));
        });

        test(`sources of another pod: none that a pod or the node has, IPv${family}`, async () => {
          // As one that may reach it, and as the node, which may.
          assert.equal(await forge('z/b', host('y/a').addresses[family], 'x/b'), 'refused');
          assert.equal(await forge('z/b', node.network.node.addresses[family], 'x/b'), 'refused');
          // An unused address may be its own in a way that the API does not know.
          assert.equal(await forge('z/b', unusedAddress[family], 'y/c'), 'arrived');
          assert.equal(await forge('z/b', foreignAddress[family], 'y/c'), 'arrived');
        });
      }

      // The table is the same whatever programs the policies.
      if (backend === 'nftables')
        test('frames that rules of addresses do not see: of no pod', async () => {
          const { vlan, serviceVlan, experimental } = etherTypes;
          const send = async (name: string, types: readonly number[], to: string, packet: Buffer) => {
            let arrived = false;
            const [from, peer] = [host(name), host(to)];
            using _four = node.network.watchUdp(to, () => (arrived = true), 4);
            using _six = node.network.watchUdp(to, () => (arrived = true), 6);
            const refused = refusedSources(node.network);
            sendFrame(from, macTowards(node.network, from, peer, bridge), types, packet);
            return await until('what becomes of it', () => {
              if (arrived) return 'arrived';
              return refusedSources(node.network) > refused ? 'refused' : undefined;
            });
          };
          for (const family of families) {
            const of = (name: string): string => host(name).addresses[family];
            const type = etherTypes[family];
            for (const [from, source, to] of [
              ['z/b', 'z/b', 'x/b'],
              ['z/b', 'y/a', 'x/b'],
              ['x/a', 'x/a', 'z/c'],
            ] as const) {
              const packet = datagram(of(source), of(to));
              for (const tags of sampled([[vlan], [serviceVlan], [vlan, vlan], [serviceVlan, vlan]], 1)) {
                const what = `${from} as ${source} to ${to}, ${tags.join()}`;
                assert.equal(await send(from, [...tags, type], to, packet), 'refused', what);
              }
            }
            assert.equal(await send('z/b', [type], 'z/c', datagram(of('z/b'), of('z/c'))), 'arrived');
          }
          assert.equal(await send('x/a', [experimental], 'z/c', Buffer.alloc(60)), 'refused');
        });

      if (backend === 'nftables')
        test('packets for a tunnel of the node: of no pod', async (t) => {
          if (!hasTunnel) return t.skip('this kernel has no VXLAN');
          const { mac } = interfaceOf(node.network.node, tunnel.device);
          const foreignMac = Buffer.of(2, 0, 0, 0, 0, 1);
          for (const family of families) {
            const [from, to] = [host('z/b'), host('x/b')];
            // As one that may reach it.
            const inner = datagram(host('y/a').addresses[family], to.addresses[family]);
            const type = etherTypes[family];
            const payload = Buffer.concat([
              tunnel.header,
              mac,
              foreignMac,
              Buffer.of(type >> 8, type & 0xff),
              inner,
            ]);
            const outer = datagram(
              from.addresses[4],
              node.network.node.addresses[4],
              [40_000, tunnel.port],
              payload,
            );
            using seen = new PacketCounter(to, { inner: 'udp dport 80' });
            const refused = refusedSources(node.network);
            const nextHop = bridge
              ? interfaceOf(node.network.node, 'pods').mac
              : macTowards(node.network, from, to, bridge);
            sendFrame(from, nextHop, [etherTypes[4]], outer);
            const fate = await until('what becomes of it', () => {
              if (seen.count('inner') > 0) return 'arrived';
              return refusedSources(node.network) > refused ? 'refused' : undefined;
            });
            assert.equal(fate, 'refused', `IPv${family}`);
          }
        });

      if (backend === 'nftables' && bridge)
        test('router advertisements: of no pod', async () => {
          using seen = new PacketCounter(host('x/b'), { six: 'icmpv6 type nd-router-advert' });
          const refused = refusedSources(node.network);
          const own = derivedAddress(
            interfaceOf(host('z/b'))
              .mac.toString('hex')
              .replaceAll(/..(?!$)/g, '$&:'),
          );
          const packet = routerAdvertisement(own, 'fd00:bad::');
          sendFrame(host('z/b'), allNodesMac, [etherTypes[6]], packet);
          const fate = await until('what becomes of it', () => {
            if (seen.count('six') > 0) return 'arrived';
            return refusedSources(node.network) > refused ? 'refused' : undefined;
          });
          assert.equal(fate, 'refused');
        });

      test('sources of an exempt pod: any, if its Namespace has the label too; a pod that goes takes its chain with it', async () => {
        const labelled = (value: string | null) =>
          node.client.patch(
            namespaces,
            { name: 'x' },
            { type: 'merge', body: { metadata: { labels: { [anySourceLabel]: value } } } },
          );
        await node.labelPod('x/a', { [anySourceLabel]: 'true' });
        // The reports after the label.
        await node.removePod('z/c');
        await untilChains(8);
        assert.equal(await forge('x/a', unusedAddress[4], 'y/b'), 'refused');
        await labelled('true');
        await untilChains(7);
        // Its policies go on.
        assert.ok(!(await reaches(host('x/a'), host('y/b').addresses[4])));
        await labelled(null);
        await untilChains(8);
        assert.equal(await forge('x/a', unusedAddress[4], 'y/b'), 'refused');
        await node.createPod(host('z/c'), 'node-1');
        await untilChains(9);
        assert.equal(await forge('z/c', host('y/a').addresses[4], 'x/b'), 'refused');
      });

      test('refusals are reported and counted', async () => {
        const isOfX = () =>
          node.refusals.find(
            ({ reason }) => reason === `x/a sent this as ${unusedAddress[4]}, which is not its address.`,
          );
        const refusal = await until('the line', isOfX);
        assert.deepEqual(
          [refusal.direction, refusal.source.namespace, refusal.source.pod, refusal.policies],
          ['egress', 'x', 'a', []],
        );
        assert.ok(
          node.refusals.some(
            ({ reason }) => reason === `z/b sent this as 10.1.0.13, which is the address of y/a.`,
          ),
        );
      });

      test('are checked while no agent runs, and the next agent adopts the rules', async () => {
        await stop();
        const refused = refusedSources(node.network);
        const macs = (): string[] =>
          (sourceTableOf(node.network).match(/(?<=accept comment "\d+ )\S+/g) ?? []).sort();
        const macsBefore = macs();
        assert.equal(macsBefore.length, 9);
        assert.equal(await forge('z/b', host('y/a').addresses[4], 'x/b'), 'refused');
        host('z/b').namespace.ip('link set eth0 address 02:00:00:00:00:99');
        stop = await node.start();
        assert.deepEqual(macs(), macsBefore);
        assert.equal(await forge('z/b', host('y/a').addresses[4], 'x/b'), 'refused');
        assert.ok(refusedSources(node.network) > refused + 1, 'counts go on');
        assert.equal(
          await sendAs(node.network, host('y/a'), host('y/a').addresses[4], host('x/b')),
          'arrived',
        );
      });

      test('sources are not checked without a policy', async () => {
        await node.removePolicy('x/a-out');
        await node.removePolicy('x/b-in');
        await until('no table', () => sourceTableOf(node.network) === '');
        assert.equal(await forge('x/a', unusedAddress[4], 'y/b'), 'arrived');
      });
    },
  );
}
