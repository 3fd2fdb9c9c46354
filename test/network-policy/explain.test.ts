// What is explained is what packets do, and what the kernel's rules say.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { until } from '../../shared/observe/until.fixture.ts';
import { Nftables } from '../../shared/netlink/nftables.ts';
import { explain } from '../../systems/network-policy/explain/explanation.ts';
import { compareWithKernel } from '../../systems/network-policy/explain/kernel-check.ts';
import { readCluster } from '../../systems/network-policy/explain/read-cluster.ts';
import { readTable } from '../../systems/network-policy/node/nftables/table.ts';
import { namespaceObstacle } from './namespaces.fixture.ts';
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

suite('what is explained', { skip: namespaceObstacle() ?? false }, () => {
  test('is what packets do, and what is in the kernel, for every pair', async () => {
    await using node = await PolicyNode.create();
    const { network } = node;
    for (const [key, spec] of Object.entries(policies)) await node.apply(key, spec);
    await node.start();
    await node.untilRules((rules) => Object.keys(policies).every((key) => rules.includes(key)));
    const cluster = await readCluster(node.client, AbortSignal.timeout(20_000));
    using nft = network.node.namespace.run(() => new Nftables());
    const table = readTable(nft);
    const hosts = [...network.pods, network.outside];
    const endOf = ({ name, addresses }: (typeof hosts)[number], family: 4 | 6): string =>
      name === 'outside' ? addresses[family] : name;
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
          assert.equal(compareWithKernel(explanation, table).result, 'agrees', pair);
        }
      }
    }
    // Somebody takes an address out of a set: the policies say it, the kernel does not.
    const set = [...(table?.values() ?? [])].find(
      ({ kind, name }) => kind === 'set' && name.endsWith('-endpoints-4'),
    );
    assert.ok(set?.kind === 'set');
    nft.run(`flush set inet rampart-network-policy ${set.name}`);
    const explanation = explain(cluster, { from: 'y/a', to: 'x/a', protocol: 'TCP', port: 80 });
    assert.deepEqual(
      [explanation.allowed, compareWithKernel(explanation, readTable(nft)).result],
      [true, 'differs'],
    );
  });

  test('a node whose API is away, and whose agent ends, goes on as it is', async () => {
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
    // Refusals are told all the same.
    await until('the line', () => node.refusals.length >= 2);
    assert.deepEqual(new Set(node.refusals.map((one) => one.node)), new Set([nodeName]));
    await stop();
    assert.deepEqual(await look(), [false, true]);
  });
});
