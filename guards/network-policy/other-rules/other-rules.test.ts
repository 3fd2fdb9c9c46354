// In network namespaces, with rules as other programs make them.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { suite, test } from 'node:test';

import { NetworkNamespace, namespaceObstacle } from '../../../test/network-policy/namespaces.fixture.ts';
import { Network } from '../../../test/network-policy/network.fixture.ts';
import { reaches } from '../../../test/network-policy/probe.fixture.ts';
import { compareWithKernel } from '../explain/kernel-check.ts';
import { explain } from '../explain/explanation.ts';
import { readKernel } from '../explain/read-kernel.ts';
import { openIptablesDataplane } from '../dataplane/iptables/dataplane.ts';
import { iptablesObstacle, variants } from '../dataplane/iptables/obstacle.fixture.ts';
import { addKubeRouterRules } from './kube-router.fixture.ts';
import { KeptNamespace } from '../dataplane/namespace.ts';
import { openNftablesDataplane } from '../dataplane/nftables/dataplane.ts';
import { droppingOf, type OtherRules, readOtherRules } from './other-rules.ts';
import { everyone, nodeRules } from '../dataplane/rules.fixture.ts';
import { sampled } from '../../../lib/testing/depth.fixture.ts';

async function read(namespace: NetworkNamespace): Promise<OtherRules> {
  using kept = namespace.run(() => new KeptNamespace());
  return await readOtherRules(kept);
}

suite('rules of other programs', { skip: iptablesObstacle() ?? namespaceObstacle() ?? false }, () => {
  test('nothing is reported for rules of Rampart, by either backend, and of kube-proxy', async () => {
    const rules = nodeRules(
      [{ name: 'x/a', addresses: { 4: '10.1.0.10', 6: 'fd00:1::10' } }],
      [{ policy: 'x/in', direction: 'ingress', selects: ['x/a'], allows: [everyone] }],
    );
    for (const open of [
      () => openNftablesDataplane(),
      ...variants.map((variant) => () => openIptablesDataplane({ variant })),
    ]) {
      using namespace = new NetworkNamespace();
      using dataplane = namespace.run(open);
      await dataplane.sync(rules);
      namespace.run(() =>
        execFileSync('iptables-nft-restore', ['--noflush'], {
          input:
            '*filter\n:KUBE-ROUTER-SERVICES - [0:0]\n:KUBE-FORWARD - [0:0]\n-A FORWARD -j KUBE-FORWARD\nCOMMIT\n',
        }),
      );
      assert.deepEqual(await read(namespace), { enforcers: [], dropping: [], unread: [] });
    }
  });

  test('other enforcers are named, with the place of their rules', async () => {
    using namespace = new NetworkNamespace();
    addKubeRouterRules(namespace, variants, 'both');
    namespace.nft(`
      add table inet kube-network-policies
      add chain inet kube-network-policies forward { type filter hook forward priority -5; policy accept; }
      add table ip filter
      add chain ip filter cali-tw-cali0123456789a
    `);
    const { enforcers } = await read(namespace);
    assert.deepEqual(
      enforcers.map((words) => words.split(', which')[0]),
      [
        'kube-router has rules in table ip filter, table ip6 filter, table ip kube-router-filter-ipv4, table ip6 kube-router-filter-ipv6, ' +
          'table filter of iptables-legacy, table filter of ip6tables-legacy',
        'Calico has rules in table ip filter',
        'kube-network-policies has rules in table inet kube-network-policies',
      ],
    );
    assert.match(enforcers[0]!, /`rampart network takeover` removes them$/);
  });

  const dropping: readonly (readonly [string, (namespace: NetworkNamespace) => void, RegExp, boolean])[] = [
    [
      'a chain of nftables that lets only established connections pass',
      (namespace) =>
        void namespace.nft(`
          add table inet firewall
          add chain inet firewall pods { type filter hook forward priority 5; policy drop; }
          add rule inet firewall pods ct state established,related accept
          add rule inet firewall pods ip saddr 192.0.2.1 counter drop
        `),
      /^chain pods in table inet firewall \(hook forward, priority 5\) drops every new connection$/,
      true,
    ],
    [
      'a chain of nftables that accepts something',
      (namespace) =>
        void namespace.nft(`
          add table inet firewall
          add chain inet firewall pods { type filter hook forward priority 5; policy drop; }
          add rule inet firewall pods ip daddr 192.0.2.0/24 accept
        `),
      /^chain pods in table inet firewall .* drops what its rules do not accept, and these are not evaluated$/,
      false,
    ],
    [
      'iptables-nft: the policy of FORWARD',
      (namespace) => namespace.run(() => void execFileSync('iptables-nft', ['-P', 'FORWARD', 'DROP'])),
      /^chain FORWARD in table ip filter \(hook forward, priority 0\) drops every new connection$/,
      true,
    ],
    [
      'iptables-legacy: the policy of FORWARD',
      (namespace) => namespace.run(() => void execFileSync('iptables-legacy', ['-P', 'FORWARD', 'DROP'])),
      /^chain FORWARD in table filter of iptables-legacy \(hook forward, priority 0\) drops every new connection$/,
      true,
    ],
    [
      'iptables-legacy: FORWARD with rules, as Docker leaves it',
      (namespace) =>
        namespace.run(() => {
          execFileSync('iptables-legacy', ['-P', 'FORWARD', 'DROP']);
          execFileSync('iptables-legacy', ['-A', 'FORWARD', '-i', 'docker0', '-j', 'ACCEPT']);
        }),
      /drops what its rules do not accept/,
      false,
    ],
  ];
  for (const [name, make, words, isCertain] of sampled(dropping, 1)) {
    test(`${name}: an allowed pair cannot talk, and the kernel is said to differ only if that is certain`, async () => {
      await using network = await Network.create();
      const { namespace } = network.node;
      const [from, to] = [network.host('x/a'), network.host('y/a')];
      using dataplane = namespace.run(() => openNftablesDataplane());
      await dataplane.sync(
        nodeRules(network.pods, [
          { policy: 'y/in', direction: 'ingress', selects: ['y/a'], allows: [everyone] },
        ]),
      );
      make(namespace);
      assert.equal(await reaches(from, to.addresses[4]), false);
      const others = await read(namespace);
      assert.deepEqual(
        droppingOf(others, { family: 4, way: 'through' }).map((one) => [
          words.test(one.words),
          one.isCertain,
        ]),
        [[true, isCertain]],
        JSON.stringify(others),
      );
      assert.deepEqual(droppingOf(others, { family: 4, way: 'from node' }), []);
      const pods = [from, to].map((host) => {
        const [namespaceName = '', podName = ''] = host.name.split('/');
        return {
          metadata: { namespace: namespaceName, name: podName },
          status: { podIP: host.addresses[4] },
        };
      });
      const policies = [
        { metadata: { namespace: 'y', name: 'in' }, spec: { podSelector: {}, ingress: [{}] } },
      ];
      const question = { from: 'x/a', to: 'y/a', protocol: 'TCP', port: 80 };
      const explanation = explain({ pods, policies, namespaces: [] }, question);
      assert.equal(explanation.allowed, true);
      const rulesets = await namespace.runTick(readKernel);
      const check = compareWithKernel(explanation, rulesets, others);
      assert.equal(check.result, isCertain ? 'differs' : 'agrees');
      assert.match(check.others.join('\n'), words);
    });
  }
});
