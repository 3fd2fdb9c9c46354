// Link-local addresses belong to the interfaces of pods: policies that isolate a pod apply to them too.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';

import { until } from '../../lib/testing/until.fixture.ts';
import { openIptablesDataplane } from '../../guards/network-policy/dataplane/iptables/dataplane.ts';
import { iptablesObstacle } from '../../guards/network-policy/dataplane/iptables/obstacle.fixture.ts';
import { protocolNumbers } from '../../guards/network-policy/dataplane/kernel-packet.ts';
import { openNftablesDataplane } from '../../guards/network-policy/dataplane/nftables/dataplane.ts';
import { namespaceObstacle } from './namespaces.fixture.ts';
import { PolicyNode } from './policy-node.fixture.ts';
import { type Host, podNames } from './network.fixture.ts';
import { reaches } from './probe.fixture.ts';
import { sendRaw } from './raw-packet.fixture.ts';
import { sampled } from '../../lib/testing/depth.fixture.ts';

const backends = [
  { backend: 'nftables', open: openNftablesDataplane, skip: namespaceObstacle() },
  {
    backend: 'iptables',
    open: (options: object = {}) => openIptablesDataplane({ ...options, variant: 'nft' }),
    skip: iptablesObstacle('nft'),
  },
] as const;

type Pair = readonly [from: string, to: string];

function linkLocalOf({ namespace }: Host, device: string): string {
  const shown = namespace.run(() =>
    execFileSync('ip', ['-6', '-o', 'addr', 'show', 'dev', device, 'scope', 'link'], { encoding: 'utf8' }),
  );
  return /inet6 (fe80::[\da-f:]+)/.exec(shown)?.[1] ?? assert.fail(shown);
}

for (const { backend, open, skip } of sampled(backends, 1)) {
  // The way to the node is the same for both kinds of rules.
  for (const bridge of backend === 'nftables' ? sampled([false, true], 1) : [true]) {
    test(
      `link-local addresses, ${backend}, pods ${bridge ? 'on a bridge' : 'with routes'}`,
      { skip: skip ?? false },
      async (t) => {
        await using node = await PolicyNode.create({ open, bridge });
        const { network } = node;
        if (bridge && !network.filterBridge()) return t.skip('this kernel has no br_netfilter');
        const host = (name: string): Host => network.host(name);
        /** The interface of the node that leads to the pod. */
        const deviceTo = (pod: string): string => (bridge ? 'pods' : `pod${podNames.indexOf(pod)}`);
        const passes = (from: string, to: string): Promise<boolean> => {
          const own =
            to === 'node' ? linkLocalOf(network.node, deviceTo(from)) : linkLocalOf(host(to), 'eth0');
          return reaches(host(from), `${own}%${from === 'node' ? deviceTo(to) : 'eth0'}`, { family: 6 });
        };
        const expect = async (pair: Pair, passing: boolean): Promise<void> =>
          assert.equal(await passes(...pair), passing, pair.join(' -> '));
        const between = (...given: readonly Pair[]): readonly Pair[] => (bridge ? given : []);
        const pairs: readonly Pair[] = [['x/a', 'node'], ...between(['x/a', 'y/b'], ['y/b', 'x/a'])];
        const others: readonly Pair[] = [['node', 'x/a'], ['y/b', 'node'], ...between(['y/b', 'y/c'])];
        await node.start();
        for (const pair of [...pairs, ...others]) await until(pair.join(' -> '), () => passes(...pair));
        await node.apply('x/a', {
          podSelector: { matchLabels: { pod: 'a' } },
          policyTypes: ['Egress', 'Ingress'],
        });
        // With iptables, one family after the other.
        for (const family of [4, 6] as const) {
          const address = host('y/b').addresses[family];
          await until('the policy', async () => !(await reaches(host('x/a'), address, { family })));
        }
        for (const pair of pairs) await expect(pair, false);
        // Neighbours are found anew.
        for (const each of [network.node, host('x/a'), host('y/b')]) each.namespace.ip('neigh flush all');
        for (const pair of pairs) await expect(pair, false);
        for (const pair of others) await expect(pair, true);
        // A pod that takes another one does not get out with it.
        host('x/a').namespace.ip(
          'addr add fe80::99/64 dev eth0 nodad',
          `addr del ${linkLocalOf(host('x/a'), 'eth0')}/64 dev eth0`,
        );
        for (const [from, to] of pairs.filter((pair) => pair[0] === 'x/a')) await expect([from, to], false);
        assert.ok(await reaches(network.node, host('x/a').addresses[6], { family: 6 }));
        // A packet that looks like discovery, but may have been routed, is refused like any other.
        await node.apply('z/a', { podSelector: { matchLabels: { pod: 'a' } }, policyTypes: ['Ingress'] });
        const address = host('z/a').addresses[6];
        await until('the policy', async () => !(await reaches(host('y/b'), address, { family: 6 })));
        for (const [sender, type] of [
          ['b', 135],
          ['c', 143],
        ] as const) {
          sendRaw(
            host(`z/${sender}`),
            address,
            protocolNumbers.ICMPv6,
            Buffer.concat([Buffer.of(type), Buffer.alloc(23)]),
          );
          await until(`the refusal of type ${type}`, () =>
            node.refusals.some(
              ({ protocol, source, destination }) =>
                protocol === 'ICMPv6' && source.pod === sender && destination.address === address,
            ),
          );
        }
      },
    );
  }
}
