import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { suite, test } from 'node:test';

import { NetworkNamespace, namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import type { Host } from '../../../../test/network-policy/network.fixture.ts';
import { dataplaneSuite } from '../dataplane.suite.fixture.ts';
import { changeBetween, nodeRules } from '../rules.fixture.ts';
import { openNftablesDataplane } from './dataplane.ts';
import { classChain, podMap, tableName } from './names.ts';

const list = ({ namespace }: Host): string =>
  namespace.run(() => execFileSync('nft', ['-s', 'list', 'ruleset'], { encoding: 'utf8' }));

dataplaneSuite(
  {
    name: 'nftables',
    open: openNftablesDataplane,
    listing: list,
    addForeign: ({ namespace }) => {
      namespace.nft(`
        add table inet rampart-network-policy-not
        add chain inet rampart-network-policy-not forward { type filter hook forward priority filter; policy accept; }
        add rule inet rampart-network-policy-not forward ip saddr 192.0.2.1 tcp dport { 1, 2-3 } mark set 0x10000 accept
        add table ip filter
        add chain ip filter FORWARD { type filter hook forward priority filter; policy accept; }
        add rule ip filter FORWARD counter accept
        add set ip filter pods-in-4 { type ipv4_addr; flags interval; elements = { 10.1.0.0/24 }; }
      `);
    },
    addNodePort: ({ namespace }, nodePort, address, port) => {
      namespace.nft(`
        add table ip service
        add chain ip service prerouting { type nat hook prerouting priority dstnat; }
        add chain ip service postrouting { type nat hook postrouting priority srcnat; }
        add rule ip service prerouting ip daddr 10.7.0.1 tcp dport ${nodePort} dnat to ${address}:${port}
        add rule ip service postrouting ct status dnat masquerade
      `);
    },
    makeOld: ({ namespace }) => {
      const table = namespace.run(() =>
        execFileSync('nft', ['-s', 'list', 'table', ...tableName.split(' ')], { encoding: 'utf8' }),
      );
      const older = table.replaceAll(/priority (-\d+|filter - \d+)/g, 'priority -20');
      namespace.nft(`delete table ${tableName}\n${older}`);
    },
    damages: [
      {
        name: 'the table is gone',
        do: ({ namespace }) => namespace.nft(`delete table ${tableName}`),
        found: /^chain class-in-\w+ \(x\/\S+\) missing$/m,
      },
      {
        name: "the chain of a pod's class is empty",
        do({ namespace }) {
          const [, chain = ''] = /chain (class-in-\w+) /.exec(namespace.nft('list ruleset')) ?? [];
          namespace.nft(`flush chain ${tableName} ${chain}`);
        },
        found: /^chain class-in-\w+ \(x\/\S+\) changed$/,
      },
      {
        name: 'the element of a pod is gone',
        do: ({ namespace }) =>
          namespace.nft(`delete element ${tableName} ${podMap('ingress', 4)} { 10.1.0.10 }`),
        found: /^map pods-in-4 changed$/,
      },
      {
        name: 'the counter of a pod is mapped to no address',
        do: ({ namespace }) => namespace.nft(`flush map ${tableName} counters-in-4`),
        found: /^map counters-in-4 changed$/,
      },
      {
        name: 'a rule, a chain and an address were added',
        do: ({ namespace }) => {
          const [, set = ''] = /set (peers-\w+-pods-4)/.exec(namespace.nft('list ruleset')) ?? [];
          namespace.nft(`
            add chain ${tableName} mine
            insert rule ${tableName} in jump mine
            add element ${tableName} ${set} { 10.1.0.12 }
          `);
        },
        found: /^chain in changed\nset peers-\w+-pods-4 changed\nchain mine added$/,
      },
    ],
  },
  namespaceObstacle(),
);

suite('nftables dataplane, messages of the kernel', { skip: namespaceObstacle() ?? false }, () => {
  test('changes of our table by other programs are noticed, our own are not', async () => {
    using namespace = new NetworkNamespace();
    using dataplane = namespace.run(() => openNftablesDataplane());
    const pod = { name: 'x/a', addresses: { 4: '10.1.0.10', 6: 'fd00:1::10' } };
    const [first, second] = [
      nodeRules([pod], []),
      nodeRules([pod], [{ policy: 'x/p', direction: 'ingress', selects: ['x/a'], allows: [] }]),
    ];
    await dataplane.sync(first);
    await dataplane.apply(second, changeBetween(first, second));
    namespace.nft('add table inet other');
    assert.equal(await dataplane.disturbed(AbortSignal.timeout(1)), false);
    assert.equal(dataplane.isUndisturbed(), true);
    namespace.nft(`flush chain ${tableName} ${classChain('ingress', 'refused', ['x/p'])}`);
    assert.equal(await dataplane.disturbed(AbortSignal.timeout(60_000)), true);
    assert.equal(dataplane.isUndisturbed(), false);
    assert.equal((await dataplane.verify()).length, 1);
    await dataplane.sync(second);
    assert.equal(dataplane.isUndisturbed(), true);
    assert.equal(await dataplane.disturbed(AbortSignal.timeout(1)), false);
  });
});
