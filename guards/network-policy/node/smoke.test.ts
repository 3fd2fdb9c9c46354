import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { inGuest, isDeep, sampled, seed } from '../../../lib/testing/depth.fixture.ts';
import { namespaceObstacle } from '../../../test/network-policy/namespaces.fixture.ts';
import { Network } from '../../../test/network-policy/network.fixture.ts';
import { reachable } from '../../../test/network-policy/probe.fixture.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import { openIptablesDataplane } from '../dataplane/iptables/dataplane.ts';
import { iptablesObstacle } from '../dataplane/iptables/obstacle.fixture.ts';
import { examineMachine } from './machine.ts';
import { openNftablesDataplane } from '../dataplane/nftables/dataplane.ts';
import { addressesOf, blocks, changeBetween, nodeRules, port } from '../dataplane/rules.fixture.ts';

/** Small, for kernels in which the whole suite would take too long. */
const backends: readonly (readonly [name: string, obstacle: string | undefined, open: () => Dataplane])[] = [
  ['nftables', namespaceObstacle(), () => openNftablesDataplane()],
  ...(['nft', 'legacy'] as const).map(
    (variant) =>
      [`iptables-${variant}`, iptablesObstacle(variant), () => openIptablesDataplane({ variant })] as const,
  ),
];

suite(`in this kernel (RAMPART_TEST_SEED=${seed})`, { skip: namespaceObstacle() ?? false }, () => {
  // Shared by all: each backend leaves it unchanged, or the next one fails.
  let network: Network;
  before(async () => void (network = await Network.create()));
  after(async () => await network[Symbol.asyncDispose]());

  test('the machine says that a backend works', async () => {
    const { backend, facts } = await examineMachine();
    assert.equal(backend, 'nftables', JSON.stringify(facts));
  });

  // The machine itself has run all of them; emulated, each takes long.
  for (const [name, obstacle, open] of inGuest && !isDeep ? sampled(backends, 1) : backends) {
    test(`${name}: peers, blocks, ports and both families`, { skip: obstacle ?? false }, async () => {
      using dataplane = network.node.namespace.run(open);
      const allows = (peer: string) =>
        nodeRules(network.pods, [
          {
            ...{ policy: 'x/in', direction: 'ingress', selects: ['x/a'] },
            allows: [
              { peers: addressesOf([network.host(peer)]), ports: [port('TCP', 80, 81)] },
              { peers: blocks('10.7.0.0-10.7.0.255', 'fd00:7::-fd00:7::ffff'), ports: 'any' },
            ],
          },
        ]);
      const first = allows('y/a');
      await dataplane.sync(first);
      assert.deepEqual(await dataplane.verify(), []);
      const expect = async (peer: string): Promise<void> => {
        for (const family of [4, 6] as const) {
          const found = await reachable([network.host('x/a')], { family }, network.pods);
          const closed = network.pods
            .filter((pod) => !found.has(`${pod.name} -> x/a`))
            .map((pod) => pod.name);
          assert.deepEqual(
            closed,
            network.pods
              .map((pod) => pod.name)
              .filter((pod) => ![peer, 'x/a'].includes(pod))
              .concat('x/a')
              .sort(),
          );
          assert.ok(
            (await reachable([network.outside, network.host('x/a')], { family })).has('outside -> x/a'),
          );
        }
      };
      await expect('y/a');
      const next = allows('z/c');
      await dataplane.apply(next, changeBetween(first, next));
      await expect('z/c');
      assert.ok((await dataplane.counters()).some(({ pod, packets }) => pod === 'x/a' && packets > 0));
      assert.notDeepEqual(await dataplane.remove(), []);
      assert.equal((await reachable(network.pods)).size, 72);
    });
  }
});
