// Objects of other programs in the kernel are the same, byte for byte, over many syncs of each dataplane and
// its removal.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { suite, test } from 'node:test';

import { errorCodes } from '../../../lib/errors/errors.ts';
import { isDeep, sampled, scaled } from '../../../lib/testing/depth.fixture.ts';
import { NetworkNamespace, namespaceObstacle } from '../../../test/network-policy/namespaces.fixture.ts';
import { podAddresses, podNames } from '../../../test/network-policy/network.fixture.ts';
import { openIptablesDataplane } from '../dataplane/iptables/dataplane.ts';
import { filterTable, ownChains } from '../dataplane/iptables/listing.ts';
import { isOurSet } from '../dataplane/iptables/names.ts';
import { iptablesObstacle, variants } from '../dataplane/iptables/obstacle.fixture.ts';
import { addKubeRouterRules } from './kube-router.fixture.ts';
import { openNftablesDataplane } from '../dataplane/nftables/dataplane.ts';
import { tableName } from '../dataplane/nftables/names.ts';
import { blocks, changeBetween, everyone, type GivenPolicy, nodeRules } from '../dataplane/rules.fixture.ts';

const families = ['iptables', 'ip6tables'] as const;
const tools = variants.flatMap((variant) => families.map((name) => `${name}-${variant}`));

/** Chains, sets and tables that are called nearly as ours are; rules on both sides of the place of ours; their own counts. */
const sets = `create KUBE-SVC-4 hash:net family inet timeout 0
add KUBE-SVC-4 192.0.2.0/24 timeout 0
create s6 hash:ip family inet6 counters
add s6 2001:db8::1
`;
const rules = (set: string): string => `*filter
:KUBE-FORWARD - [0:0]
:KUBE-ROUTER-SERVICES - [0:0]
-A INPUT -j KUBE-ROUTER-SERVICES
-A INPUT -p udp -m comment --comment "their \\"own\\" count"
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -m set --match-set ${set} src -j DROP
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
COMMIT
*mangle
-A PREROUTING -p udp -j MARK --set-xmark 0x10000/0x10000
COMMIT
`;
const ruleset = `
  add table ${tableName}-not
  add chain ${tableName}-not input { type filter hook input priority filter; policy accept; }
  add rule ${tableName}-not input counter ip saddr 192.0.2.1 tcp dport { 1, 2-3 } mark set 0x10000 accept
  add rule ${tableName}-not input meta l4proto udp counter
  add table inet theirs
  add set inet theirs pods-in-4 { type ipv4_addr; flags interval; elements = { 10.1.0.0/24 }; }
`;

class Others implements Disposable {
  readonly namespace = new NetworkNamespace();

  constructor() {
    this.#run('ipset', ['restore'], sets);
    for (const tool of tools) {
      const set = tool.startsWith('iptables') ? 'KUBE-SVC-4' : 's6';
      this.#run(`${tool}-restore`, ['--noflush', '--wait'], rules(set));
    }
    this.namespace.nft(ruleset);
    this.namespace.ip('link set lo up');
    // Packets, so that a reset counter is seen. None are sent after them.
    const send = 'for to in 127.0.0.1 ::1; do echo x > /dev/udp/$to/9; done';
    this.#run('bash', ['-c', send]);
  }

  /** All of the kernel but what is ours, with counts. */
  get listing(): string {
    const chains = tools.flatMap((tool) => {
      const saved = this.#run(`${tool}-save`, ['-c']);
      const own = ownChains(filterTable(saved));
      return saved.split('\n').filter((line) => {
        const [, chain = '', target = ''] = /^(?:\[\d+:\d+\] -A |:)(\S+)(?:.* -j (\S+))?/.exec(line) ?? [];
        // The time.
        return !line.startsWith('#') && ![chain, target].some((name) => own.has(name));
      });
    });
    const members = this.#run('ipset', ['save']).split('\n');
    const others = [
      // But for those of the policies of chains: legacy iptables begins them anew with each change, whoever makes it.
      ...chains.map((line) => line.replace(/(?<=^:.*) \[.*$/, '')),
      ...members.filter((line) => !isOurSet(/^(?:create|add) (\S+)/.exec(line)?.[1] ?? '')),
    ];
    // Those of iptables have rules of ours: they are above.
    const ofIptables = /^table ip6? (?:filter|mangle) |^table inet rampart-network-policy \{/;
    const tables = this.#run('nft', ['list', 'ruleset']).split(/^(?=table )/m);
    return [...others, ...tables.filter((table) => !ofIptables.test(table))].join('\n');
  }

  #run(program: string, args: readonly string[], input = ''): string {
    return this.namespace.run(() =>
      execFileSync(program, args, { encoding: 'utf8', input, stdio: ['pipe', 'pipe', 'pipe'] }),
    );
  }

  [Symbol.dispose](): void {
    this.namespace[Symbol.dispose]();
  }
}

const pods = podNames.map((name, place) => ({ name, addresses: podAddresses(place) }));

function policiesOf(round: number): readonly GivenPolicy[] {
  const pod = (place: number): string => podNames[place % podNames.length] ?? '';
  const peers = blocks(`10.2.${round % 256}.0-10.2.${round % 256}.255`, 'fd00:2::-fd00:2::ff');
  return [
    { policy: 'x/in', direction: 'ingress', selects: [pod(round)], allows: [everyone] },
    { policy: 'x/out', direction: 'egress', selects: [pod(round + 3)], allows: [{ peers, ports: 'any' }] },
  ];
}

/** After 60 the pods and policies of a round come again. With iptables each starts a dozen programs. */
const rounds = isDeep ? scaled(60) : 8;

suite(
  'objects of other programs in the kernel',
  { skip: iptablesObstacle() ?? namespaceObstacle() ?? false },
  () => {
    const backends = [
      ['nftables', () => openNftablesDataplane()],
      ...variants.map(
        (variant) => [`iptables-${variant}`, () => openIptablesDataplane({ variant })] as const,
      ),
    ] as const;
    for (const [name, open] of sampled(backends, 1)) {
      test(`is the same, byte for byte, over ${rounds} syncs by ${name} and the removal`, async () => {
        using others = new Others();
        const { listing } = others;
        for (const part of ['[2:', 'KUBE-SVC-4', 'packets 2', 'theirs'])
          assert.ok(listing.includes(part), listing);
        using dataplane = others.namespace.run(open);
        let last = nodeRules([], []);
        for (let round = 0; round < rounds; round++) {
          const next = nodeRules(pods.slice(round % 5), policiesOf(round));
          if (round % 4 === 3) await dataplane.apply(next, changeBetween(last, next));
          await dataplane.sync(next);
          last = next;
          if (round % 30 === 0) assert.equal(others.listing, listing);
        }
        assert.equal(others.listing, listing);
        assert.notEqual((await dataplane.remove()).length, 0);
        assert.equal(others.listing, listing);
        assert.deepEqual(await dataplane.remove(), []);
      });
    }

    for (const [name, open] of sampled(backends, 1)) {
      test(`kube-router's rules are the same after ${name} has come and gone`, async () => {
        using others = new Others();
        // In one table, the two would have chains with the same names.
        const elsewhere = variants.filter((variant) => name !== `iptables-${variant}`);
        addKubeRouterRules(others.namespace, elsewhere, 'both');
        const { listing } = others;
        using dataplane = others.namespace.run(open);
        await dataplane.sync(nodeRules(pods, policiesOf(0)));
        assert.equal(others.listing, listing);
        assert.deepEqual(await dataplane.verify(), []);
        await dataplane.remove();
        assert.equal(others.listing, listing);
      });
    }

    for (const variant of sampled(variants, 1)) {
      test(`iptables-${variant} does not touch a table in which kube-router has rules, and names the way out`, async () => {
        using others = new Others();
        addKubeRouterRules(others.namespace, [variant]);
        const { listing } = others;
        using dataplane = others.namespace.run(() => openIptablesDataplane({ variant }));
        const next = /rampart network takeover/;
        await assert.rejects(dataplane.sync(nodeRules(pods, policiesOf(0))), {
          code: errorCodes.CONFLICT,
          message: next,
        });
        assert.deepEqual(await dataplane.remove(), []);
        assert.equal(others.listing, listing);
      });
    }
  },
);
