// Explanations agree with packets, and with the kernel's rules.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { suite, test } from 'node:test';

import { deepTest, sampled } from '../../lib/testing/depth.fixture.ts';
import { patience, until } from '../../lib/testing/until.fixture.ts';
import { readFinding } from '../../guard/stream/read-finding.ts';
import { Nftables } from '../../guards/network-policy/dataplane/nftables/nftables.ts';
import { type ClusterObjects, explain } from '../../guards/network-policy/explain/explanation.ts';
import { compareWithKernel } from '../../guards/network-policy/explain/kernel-check.ts';
import { readCluster } from '../../guards/network-policy/explain/read-cluster.ts';
import { readKernel } from '../../guards/network-policy/explain/read-kernel.ts';
import type { Dataplane } from '../../guards/network-policy/dataplane/dataplane.ts';
import { openIptablesDataplane } from '../../guards/network-policy/dataplane/iptables/dataplane.ts';
import { iptablesObstacle } from '../../guards/network-policy/dataplane/iptables/obstacle.fixture.ts';
import type { Variant } from '../../guards/network-policy/dataplane/iptables/variant.ts';
import type { KernelRuleset } from '../../guards/network-policy/dataplane/kernel-packet.ts';
import { openNftablesDataplane } from '../../guards/network-policy/dataplane/nftables/dataplane.ts';
import { tableName } from '../../guards/network-policy/dataplane/nftables/names.ts';
import { readTable } from '../../guards/network-policy/dataplane/nftables/table.ts';
import { namespaceObstacle } from './namespaces.fixture.ts';
import type { Host } from './network.fixture.ts';
import { nodeName, PolicyNode } from './policy-node.fixture.ts';
import { reachable, reaches } from './probe.fixture.ts';

const policies = {
  'x/a-from-y': {
    podSelector: { matchLabels: { pod: 'a' } },
    ingress: [{ from: [{ namespaceSelector: { matchLabels: { ns: 'y' } } }], ports: [{ port: 'serve-80' }] }],
  },
  'y/out': {
    podSelector: { matchLabels: { pod: 'b' } },
    policyTypes: ['Egress'],
    egress: [{ to: [{ ipBlock: { cidr: '10.1.0.0/24', except: ['10.1.0.10/32'] } }] }],
  },
  'z/wide': {
    podSelector: {},
    ingress: [{ from: [{ ipBlock: { cidr: '10.7.0.0/16' } }], ports: [{ port: 80, endPort: 90 }] }],
  },
};

interface Backend {
  readonly obstacle: string | undefined;
  readonly open: () => Dataplane;
  /** Takes all out of the set of endpoints over IPv4. */
  empty(node: Host): void;
}

function emptyIpset(node: Host): void {
  const ipset = (...args: readonly string[]): string =>
    node.namespace.run(() => execFileSync('ipset', args, { encoding: 'utf8' }));
  const [, set = ''] = /^create (KUBE-\S+) hash:ip,port family inet /m.exec(ipset('save')) ?? [];
  ipset('flush', set);
}

const iptables = (variant: Variant): Backend => ({
  obstacle: iptablesObstacle(variant),
  open: () => openIptablesDataplane({ variant }),
  empty: emptyIpset,
});

const backends: Readonly<Record<string, Backend>> = {
  nftables: {
    obstacle: namespaceObstacle(),
    open: openNftablesDataplane,
    empty: ({ namespace }) => {
      using nft = namespace.run(() => new Nftables());
      const set = [...(readTable(nft)?.values() ?? [])].find(
        ({ kind, name }) => kind === 'set' && name.endsWith('-endpoints-4'),
      );
      nft.run(`flush set ${tableName} ${set?.name}`);
    },
  },
  'iptables (nft)': iptables('nft'),
  'iptables (legacy)': iptables('legacy'),
};

/** With the addresses of the node: of pods that run on it the kubelet says them. */
function onNode(cluster: ClusterObjects, { addresses }: Host): ClusterObjects {
  const hostIPs = [{ ip: addresses[4] }, { ip: addresses[6] }];
  const pods = cluster.pods.map((pod) => ({ ...pod, status: { ...pod.status, hostIPs } }));
  return { ...cluster, pods };
}

suite('explanations', () => {
  const all = Object.entries(backends);
  // nftables, and one of the two by iptables; at depth 1 both.
  for (const [backend, { obstacle, open, empty }] of sampled(all, 1)) {
    test(
      `${backend}: is what packets do, and what is in the kernel, for every pair`,
      { skip: obstacle ?? false },
      async () => {
        await using node = await PolicyNode.create({ open });
        const { network } = node;
        for (const [key, spec] of Object.entries(policies)) await node.apply(key, spec);
        const stop = await node.start();
        const read = await readCluster(node.client, patience());
        const cluster = onNode(read, network.node);
        const readRules = (): Promise<KernelRuleset[]> => network.node.namespace.run(() => readKernel());
        const kernel = await readRules();
        const hosts = [...network.pods, network.outside, network.node];
        const endOf = ({ name, addresses }: Host, family: 4 | 6): string =>
          name.includes('/') ? name : addresses[family];
        for (const [family, port] of [
          [4, 80],
          [6, 81],
        ] as const) {
          const found = await reachable(hosts, { family, port });
          for (const from of hosts) {
            for (const to of hosts) {
              if (from === to) continue;
              const explanation = explain(cluster, {
                ...{ from: endOf(from, family), to: endOf(to, family), protocol: 'TCP', port, family },
              });
              const pair = `${from.name} -> ${to.name}`;
              assert.equal(explanation.allowed, found.has(pair), pair);
              const checked = compareWithKernel(explanation, kernel);
              assert.deepEqual([checked.backend, checked.result], [backend, 'agrees'], pair);
            }
          }
        }
        // An address is removed from a set while no agent repairs it: the policies allow it, the kernel does
        // not.
        await stop();
        empty(network.node);
        const explanation = explain(cluster, { from: 'y/a', to: 'x/a', protocol: 'TCP', port: 80 });
        assert.deepEqual(
          [explanation.allowed, compareWithKernel(explanation, await readRules()).result],
          [true, 'differs'],
        );
        assert.equal(await reaches(network.host('y/a'), network.host('x/a').addresses[4]), false);
      },
    );
  }

  deepTest(
    'a node whose API is away, and whose agent ends, keeps its rules',
    { skip: namespaceObstacle() ?? false },
    async () => {
      await using node = await PolicyNode.create();
      const { network } = node;
      await node.apply('x/a-from-y', policies['x/a-from-y']);
      const stop = await node.start();
      await node.untilRules((rules) => rules.includes('x/a-from-y'));
      const look = async () => [
        await reaches(network.host('z/a'), network.host('x/a').addresses[4]),
        await reaches(network.host('y/a'), network.host('x/a').addresses[4]),
      ];
      assert.deepEqual(await look(), [false, true]);
      await node.stopApi();
      assert.deepEqual(await look(), [false, true]);
      // Refusals are reported all the same.
      await until('the line', () => node.refusals.length >= 2);
      for (const line of node.lines) assert.equal(readFinding(line)?.head.node.name, nodeName);
      await stop();
      assert.deepEqual(await look(), [false, true]);
    },
  );
});
