import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { suite, test } from 'node:test';

import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { type Host, Network } from '../../../test/network-policy/network.fixture.ts';
import { reaches } from '../../../test/network-policy/probe.fixture.ts';
import { type BackendChoice, openBackend, type OpenedBackend } from './backend.ts';
import { openIptablesDataplane } from './iptables/dataplane.ts';
import { iptablesObstacle, variants } from './iptables/obstacle.fixture.ts';
import { tableName } from './nftables/names.ts';
import { addressesOf, nodeRules } from './rules.fixture.ts';

const quiet = { info: () => {}, warn: () => {} };

/** Our objects in the kernel, by backend. */
function ours({ namespace }: Host): string[] {
  const of = (program: string, ...args: string[]): string =>
    namespace.run(() =>
      execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
    );
  return [
    ...(of('nft', 'list', 'tables').includes(tableName) ? ['nftables'] : []),
    ...variants.flatMap((variant) =>
      ['iptables', 'ip6tables'].some((name) => of(`${name}-${variant}-save`).includes('KUBE-ROUTER-'))
        ? [`iptables (${variant})`]
        : [],
    ),
    ...(of('ipset', 'save').includes('KUBE-') ? ['sets'] : []),
  ];
}

suite('the backend of a node', { skip: iptablesObstacle() ?? false }, () => {
  const opened = (node: Host, choice: BackendChoice): Promise<OpenedBackend> =>
    node.namespace.run(() => openBackend(choice, {}, quiet));
  const closed = (network: Network) =>
    nodeRules(network.pods, [
      {
        ...{ policy: 'x/closed', direction: 'ingress', selects: ['x/a'] },
        allows: [{ peers: addressesOf([network.host('z/a')]), ports: 'any' }],
      },
    ]);

  test('auto is nftables where that works', async () => {
    await using network = await Network.create();
    const { name, dataplane } = await opened(network.node, 'auto');
    using _ = dataplane;
    assert.equal(name, 'nftables');
    await dataplane.sync(closed(network));
    assert.deepEqual(ours(network.node), ['nftables']);
  });

  deepTest(
    'a backend takes away what another one left once its own rules hold; a closed pod is open at no moment',
    async () => {
      await using network = await Network.create();
      const { node } = network;
      const rules = closed(network);
      using first = node.namespace.run(() => openIptablesDataplane({ variant: 'legacy' }));
      await first.sync(rules);
      let passed = 0;
      network.watchUdp('x/a', () => passed++);
      const target = network.host('x/a').addresses[4];
      network.spawn(network.host('y/b'), `while :; do echo x > /dev/udp/${target}/80; done 2> /dev/null`);
      const refusedAny = async (dataplane: OpenedBackend['dataplane']): Promise<boolean> => {
        for (let look = 0; look < 400; look++) {
          if ((await dataplane.counters()).some(({ packets }) => packets > 3)) return true;
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
        return false;
      };
      for (const choice of ['nftables', 'iptables', 'nftables'] as const) {
        const { name, dataplane } = await opened(node, choice);
        using _ = dataplane;
        await dataplane.sync(rules);
        assert.deepEqual(ours(node), choice === 'nftables' ? [name] : [name, 'sets']);
        assert.ok(await refusedAny(dataplane), `packets are refused by ${name}`);
        assert.ok(await reaches(network.host('z/a'), target));
        assert.deepEqual(await dataplane.verify(), []);
      }
      // The other kind of iptables, whose sets have the same names.
      using again = node.namespace.run(() => openIptablesDataplane({ variant: 'legacy' }));
      await again.sync(rules);
      const { name, dataplane } = await opened(node, 'iptables');
      using _ = dataplane;
      await dataplane.sync(rules);
      assert.deepEqual(ours(node), [name, 'sets']);
      assert.deepEqual(await dataplane.verify(), []);
      assert.equal(passed, 0);
      assert.notDeepEqual(await dataplane.remove(), []);
      assert.deepEqual(ours(node), []);
    },
  );

  test('iptables is the kind that has the rules of others', async () => {
    for (const variant of variants) {
      await using network = await Network.create();
      const { node } = network;
      node.namespace.run(() => execFileSync(`iptables-${variant}`, ['-w', '-A', 'FORWARD', '-j', 'ACCEPT']));
      const { name, dataplane } = await opened(node, 'iptables');
      using _ = dataplane;
      assert.equal(name, `iptables (${variant})`);
    }
  });
});
