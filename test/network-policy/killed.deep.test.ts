// Agents that are killed while policies change: what the kernel enforces is the old state or the new, at each moment.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { Random, scaled, seed } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { iptablesObstacle } from '../../guards/network-policy/dataplane/iptables/obstacle.fixture.ts';
import { namespaceObstacle } from './namespaces.fixture.ts';
import { nodeName, PolicyNode } from './policy-node.fixture.ts';
import { reaches } from './probe.fixture.ts';
import { Probing, sendDatagrams } from './probing.fixture.ts';

const from = (ns: string) => [{ namespaceSelector: { matchLabels: { ns } } }];
const closed = { podSelector: { matchLabels: { pod: 'a' } }, ingress: [{ from: from('z') }] };
/** Peers and ports change together: y at 81 and z at 80 are in neither. */
const flips = [
  { podSelector: { matchLabels: { pod: 'b' } }, ingress: [{ from: from('y'), ports: [{ port: 80 }] }] },
  { podSelector: { matchLabels: { pod: 'b' } }, ingress: [{ from: from('z'), ports: [{ port: 81 }] }] },
] as const;

/** Changes policies one after the other, until it is stopped. The last of `x/b` is the first of {@link flips}. */
class Churn {
  changes = 0;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor(node: PolicyNode, random: Random) {
    this.#running = this.#run(node, random);
  }

  async #run(node: PolicyNode, random: Random): Promise<void> {
    const others = new Set<string>();
    for (; !this.#stop.signal.aborted; this.changes++) {
      await delay(random.below(30));
      if (this.changes % 3 === 0) {
        await node.apply('x/flip', flips[(this.changes / 3) % 2]!);
        continue;
      }
      const name = `${random.pick(['x', 'y'])}/p${random.below(6)}`;
      if (others.delete(name)) {
        await node.removePolicy(name);
        continue;
      }
      others.add(name);
      // Packets of x/a too: with the rules of x/closed, or less.
      const pod = name.startsWith('x/') ? random.pick(['a', 'c']) : random.pick(['a', 'b', 'c']);
      await node.apply(name, {
        podSelector: { matchLabels: { pod } },
        policyTypes: ['Ingress'],
        ingress: random.chance(0.5) ? [{ from: from('z'), ports: [{ port: random.pick([80, 443]) }] }] : [],
      });
    }
    await node.apply('x/flip', flips[0]);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
}

suite('agents that are killed', { skip: namespaceObstacle() ?? false, timeout: 1_200_000 }, () => {
  for (const [backend, obstacle] of [
    ['nftables', undefined],
    ['iptables', iptablesObstacle('nft')],
  ] as const) {
    test(
      `by ${backend}: no packet passes that no state allows, and none is refused that each allows (seed ${seed})`,
      {
        skip: obstacle ?? false,
      },
      async () => {
        await using node = await PolicyNode.create();
        const { network } = node;
        const random = new Random(seed);
        await node.apply('x/closed', closed);
        await node.apply('x/flip', flips[0]);
        const start = () =>
          node.startAgent(
            network.node.namespace,
            nodeName,
            ...[
              '--network-policy-backend',
              backend,
              '--pod-cidr',
              '10.1.0.0/24',
              '--pod-cidr',
              'fd00:1::/64',
            ],
            ...['--network-policy-default', random.pick(['allow', 'deny'])],
          );
        const [xa, xb, yb, yc, za] = ['x/a', 'x/b', 'y/b', 'y/c', 'z/a'].map((name) => network.host(name));
        assert.ok(xa && xb && yb && yc && za);
        let agent = await start();
        const isClosed = async () =>
          !(await reaches(yc, xa.addresses[4])) && !(await reaches(za, xb.addresses[6], { family: 6 }));
        // With the default deny, all is closed before the policies are known.
        await until('the rules', async () => (await isClosed()) && (await reaches(za, xa.addresses[4])));

        const probing = new Probing({
          never: [
            { from: yc, to: xa },
            { from: yc, to: xa, port: 81, family: 6 },
            { from: yc, to: xb, port: 81 },
            { from: za, to: xb, port: 80, family: 6 },
          ],
          always: [
            { from: za, to: xa, port: 80 },
            { from: za, to: xa, port: 81, family: 6 },
          ],
        });
        let datagrams = 0;
        network.watchUdp('x/a', () => datagrams++);
        using _sending = await sendDatagrams(yb, xa);
        const churn = new Churn(node, random);
        let [kills, programmed] = [0, 0];
        try {
          for (; kills < scaled(25, 4); kills++) {
            // Most are killed while they take over, some before it and some long after.
            if (random.chance(0.8)) await until('a backend', () => agent.stderr.includes('programmed by'));
            await delay(random.below(400));
            if (agent.stderr.includes('programmed by')) programmed++;
            await agent.kill();
            agent = await start();
          }
        } finally {
          await churn.stop();
        }
        assert.ok(programmed > 0 && churn.changes > kills);
        // The last one makes it as the last change says.
        await until('the last state', async () => {
          return (await reaches(yc, xb.addresses[4])) && !(await reaches(za, xb.addresses[4], { port: 81 }));
        });
        assert.deepEqual(await probing.stop(), []);
        assert.equal(datagrams, 0);
        assert.ok(probing.rounds > kills);
        await agent.stop();
        assert.ok(await isClosed());
      },
    );
  }
});
