// Two nodes, an agent on each with a backend of its own, one API: who reaches whom across them, while pods come, go and change labels.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { suite, test } from 'node:test';

import type { RampartProcess } from '../../apps/apiserver/rampart-process.fixture.ts';
import { namespaces } from '../../lib/kube/object/object.ts';
import { sampled, seed } from '../../lib/testing/depth.fixture.ts';
import { patience, until } from '../../lib/testing/until.fixture.ts';
import { readCluster } from '../../guards/network-policy/explain/read-cluster.ts';
import { judge } from '../../guards/network-policy/judge/judge.ts';
import { iptablesObstacle } from '../../guards/network-policy/dataplane/iptables/obstacle.fixture.ts';
import { type NodeName, PolicyNodes } from './nodes.fixture.ts';
import { type ProbeOptions, reachable } from './probe.fixture.ts';
import { Probing, sendDatagrams } from './probing.fixture.ts';

const ns = (name: string) => ({ namespaceSelector: { matchLabels: { ns: name } } });
const pod = (name: string) => ({ podSelector: { matchLabels: { pod: name } } });

const policies = {
  // Peers of both nodes; a port by its name.
  'x/a-from-y': { ...pod('a'), ingress: [{ from: [ns('y')], ports: [{ port: 'serve-80' }] }] },
  // Peers are of the other node alone.
  'x/b-from-z-a': { ...pod('b'), ingress: [{ from: [{ ...ns('z'), ...pod('a') }] }] },
  'x/c-closed': { ...pod('c'), policyTypes: ['Ingress', 'Egress'] },
  // The source is on one node, its destination on both; by label and by block.
  'y/b-out': {
    ...pod('b'),
    policyTypes: ['Egress'],
    egress: [
      { to: [ns('x')], ports: [{ port: 80 }, { port: 80, protocol: 'UDP' }] },
      { to: [{ ipBlock: { cidr: '10.1.0.0/24', except: ['10.1.0.12/32'] } }], ports: [{ port: 81 }] },
      { to: [{ ipBlock: { cidr: 'fd00:2::/64' } }] },
    ],
  },
  'z/trusted': {
    ...pod('c'),
    ingress: [{ from: [{ namespaceSelector: {}, podSelector: { matchLabels: { trusted: 'yes' } } }] }],
  },
};

const probes: readonly ProbeOptions[] = sampled(
  [
    { family: 4 },
    { family: 6 },
    { family: 4, port: 81 },
    { family: 6, port: 81 },
    { family: 4, protocol: 'UDP' },
    { family: 6, protocol: 'UDP', port: 81 },
  ],
  2,
);

/** The decision of the policies in the API for each pair. A node reaches its own pods. */
async function judged(all: PolicyNodes, { protocol = 'TCP', port = 80, family = 4 }: ProbeOptions) {
  const cluster = await readCluster(all.client, patience());
  const nodeOf = new Map(all.pods.map((one) => [one.name, one.node]));
  const pairs = all.hosts.flatMap((from) =>
    all.hosts
      .filter((to) => to !== from)
      .filter((to) => {
        const packet = { from: from.addresses[family], to: to.addresses[family], family, protocol, port };
        const options = { fromNode: nodeOf.get(to.name) === from.name };
        return judge(cluster.policies, cluster.pods, cluster.namespaces, packet, options).allowed;
      })
      .map((to) => `${from.name} -> ${to.name}`),
  );
  return pairs.sort();
}

const found = async (all: PolicyNodes, options: ProbeOptions) =>
  [...(await reachable(all.hosts, options))].sort();

/** Waits until both nodes are there: it has to hold for each port, protocol and family. At once, as a lost packet takes seconds. */
async function expectJudged(all: PolicyNodes, what: string): Promise<void> {
  const wanted = await Promise.all(probes.map((options) => judged(all, options)));
  let seen: readonly (readonly string[])[] = [];
  await until(
    what,
    async () => {
      seen = await Promise.all(probes.map((options) => found(all, options)));
      return seen.join() === wanted.join();
    },
    30_000,
  ).catch(() => undefined);
  for (const [at, options] of probes.entries())
    assert.deepEqual(seen[at], wanted[at], `${what}: ${JSON.stringify(options)}`);
}

suite(
  `two nodes (RAMPART_TEST_SEED=${seed})`,
  { skip: iptablesObstacle('nft') ?? false, timeout: 600_000 },
  () => {
    test('hold to the policies of one API, by nftables and by iptables, whatever changes', async () => {
      await using all = await PolicyNodes.create();
      const everybody = all.hosts.flatMap((from) =>
        all.hosts.filter((to) => to !== from).map((to) => `${from.name} -> ${to.name}`),
      );
      for (const options of probes)
        assert.deepEqual(await found(all, options), everybody.sort(), 'without policies');

      const agents = new Map<NodeName, RampartProcess>();
      for (const [name, backend] of [
        ['one', 'nftables'],
        ['two', 'iptables'],
      ] as const) {
        const { namespace } = all.host(name);
        agents.set(name, await all.startAgent(namespace, name, '--network-policy-backend', backend));
      }
      for (const [key, spec] of Object.entries(policies)) await all.apply(key, spec);
      await expectJudged(all, 'the policies');
      const [xb, xc, zc] = ['x/b', 'x/c', 'z/c'].map((name) => all.host(name));
      assert.ok(xb && xc && zc);
      // Whatever follows allows none of these.
      const probing = new Probing({
        never: ['y/a', 'y/b'].flatMap((from) => [
          { from: all.host(from), to: xc },
          { from: all.host(from), to: xc, family: 6 as const },
          { from: all.host(from), to: xb, port: 81, family: 6 as const },
        ]),
        always: [{ from: all.host('z/a'), to: xb }],
      });
      using _sending = await sendDatagrams(all.host('y/b'), xc);
      let datagrams = 0;
      const { 4: sender } = all.host('y/b').addresses;
      all.watchUdp('x/c', (from) => (datagrams += from === sender ? 1 : 0));

      for (const key of ['y/a', 'y/c', 'z/b']) await all.labelPod(key, { trusted: 'yes' });
      await expectJudged(all, 'pods that get a label');
      assert.ok((await judged(all, {})).includes('y/c -> z/c'));
      for (const key of ['y/c', 'z/b']) await all.labelPod(key, { trusted: null });
      await all.labelPod('x/a', { pod: 'other' });
      await expectJudged(all, 'pods that lose one, and one that no policy selects any more');
      await all.client.patch(
        namespaces,
        { name: 'y' },
        { type: 'merge', body: { metadata: { labels: { ns: 'none' } } } },
      );
      await all.labelPod('x/a', { pod: 'a' });
      await expectJudged(all, 'a namespace that is another one');
      await all.client.patch(
        namespaces,
        { name: 'y' },
        { type: 'merge', body: { metadata: { labels: { ns: 'y' } } } },
      );

      // The address of one that was trusted and the address of one that was isolated, each for another pod.
      for (const [gone, next] of [
        ['y/a', 'z/next'],
        ['y/b', 'y/next'],
      ] as const) {
        const { addresses } = all.host(gone);
        await all.removePod(gone);
        await all.createPod(
          { name: next, addresses },
          all.pods.find(({ name }) => name === gone)?.node ?? '',
        );
      }
      await expectJudged(all, 'pods with the addresses of those that are gone');
      const now = await judged(all, { port: 81 });
      assert.ok(!now.includes('y/a -> z/c') && now.includes('y/b -> y/a'));

      assert.deepEqual(await probing.stop(), []);
      assert.equal(datagrams, 0);

      // On each node what it needs, and nothing else.
      const listings = {
        one: all.host('one').namespace.nft('list ruleset'),
        two: all.host('two').namespace.run(() => execFileSync('iptables-nft-save', { encoding: 'utf8' })),
      };
      assert.match(listings.one, /x\/a-from-y/);
      assert.doesNotMatch(listings.one, /x\/b-from-z-a|y\/b-out/);
      assert.match(listings.two, /b-from-z-a/);
      assert.doesNotMatch(listings.two, /a-from-y|c-closed|z\/trusted/);
      // The same result without agents and without an API.
      const wanted = await judged(all, {});
      for (const agent of agents.values()) await agent.stop();
      await all.stopApi();
      assert.deepEqual(await found(all, {}), wanted);
    });
  },
);
