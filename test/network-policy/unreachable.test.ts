// An agent that starts while the API cannot be reached.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { until } from '../../lib/testing/until.fixture.ts';
import { openIptablesDataplane } from '../../guards/network-policy/dataplane/iptables/dataplane.ts';
import { iptablesObstacle } from '../../guards/network-policy/dataplane/iptables/obstacle.fixture.ts';
import { openNftablesDataplane } from '../../guards/network-policy/dataplane/nftables/dataplane.ts';
import { namespaceObstacle } from './namespaces.fixture.ts';
import { podCidr } from './network.fixture.ts';
import { PolicyNode } from './policy-node.fixture.ts';
import { reaches } from './probe.fixture.ts';

const onlyB = {
  podSelector: { matchLabels: { pod: 'a' } },
  ingress: [{ from: [{ namespaceSelector: {}, podSelector: { matchLabels: { pod: 'b' } } }] }],
};
const refusing = [
  { refusesUnknown: true, podCidrs: [podCidr[4], podCidr[6]] },
  { unknownPods: 'deny' },
  () => true,
] as const;

suite('an agent that cannot reach the API', { skip: namespaceObstacle() ?? false }, () => {
  for (const [name, open, obstacle] of [
    ['nftables', openNftablesDataplane, undefined],
    ['iptables', (options) => openIptablesDataplane({ variant: 'nft', ...options }), iptablesObstacle('nft')],
  ] as const satisfies readonly (readonly [string, typeof openNftablesDataplane, string | undefined])[]) {
    test(
      `${name}: with default deny refuses all pods but to their node`,
      { skip: obstacle ?? false },
      async () => {
        await using node = await PolicyNode.create({ open });
        const { network } = node;
        const [pod, peer] = [network.host('x/a'), network.host('y/b')];
        await node.stopApi();
        const stop = await node.start(...refusing);
        for (const family of [4, 6] as const) {
          await until('it is refused', async () => !(await reaches(peer, pod.addresses[family])));
          assert.equal(await reaches(pod, network.outside.addresses[family]), false);
          assert.ok(await reaches(network.node, pod.addresses[family]));
        }
        await stop();
        assert.equal(await reaches(peer, pod.addresses[4]), false);
      },
    );

    test(`${name}: the rules of the last agent stay`, { skip: obstacle ?? false }, async () => {
      let looks = 0;
      await using node = await PolicyNode.create({
        open: (options) => {
          const dataplane = open(options);
          const isEnforcing = dataplane.isEnforcing.bind(dataplane);
          dataplane.isEnforcing = async (signal) => (await isEnforcing(signal)) && ++looks > 0;
          return dataplane;
        },
      });
      const { network } = node;
      const target = network.host('x/a').addresses[4];
      const end = await node.start(refusing[0], refusing[1]);
      await node.apply('x/only-b', onlyB);
      await until('the rules', async () => !(await reaches(network.host('y/c'), target)));
      await end();
      await node.stopApi();
      assert.equal(looks, 0);
      await node.start(...refusing);
      await until('the kernel was looked at', () => looks > 0);
      assert.ok(await reaches(network.host('y/b'), target));
      assert.equal(await reaches(network.host('y/c'), target), false);
    });
  }
});
