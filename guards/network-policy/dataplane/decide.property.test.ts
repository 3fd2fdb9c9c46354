import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { assertReached } from '../../../lib/testing/depth.fixture.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { errorCodes } from '../../../lib/errors/errors.ts';
import { parseAddress } from '../engine/addresses.ts';
import { PolicyEngine } from '../engine/engine.ts';
import { directions } from '../engine/rules.ts';
import { isRefusal, judge } from '../judge/judge.ts';
import { addresses, change, type Cluster, clusterOf, nodes, portNumbers } from '../random-cluster.fixture.ts';
import { noRules } from './iptables/rules.ts';
import type { KernelRuleset } from './kernel-packet.ts';
import { parseTextListing } from './nftables/listing-text.ts';
import { iptablesRuleset, nftablesRuleset, rulesets } from './rulesets.fixture.ts';

const numbers = { TCP: 6, UDP: 17, SCTP: 132, ICMP: 1 } as const;

function engineOf(node: string, { pods, policies, namespaces }: Cluster): PolicyEngine {
  const engine = new PolicyEngine(node);
  for (const one of namespaces) engine.upsertNamespace(one);
  for (const one of pods) engine.upsertPod(one);
  for (const one of policies) engine.upsertPolicy(one);
  return engine;
}

suite('decisions of the rules in the kernel', () => {
  for (const [backend, rulesetOf] of Object.entries(rulesets)) {
    test(`${backend}: is what the judge says, for every packet to or from a pod of the node`, () => {
      let known = 0;
      fc.assert(
        fc.property(fc.array(change, { minLength: 4, maxLength: 24, size: 'max' }), (changes) => {
          const cluster = clusterOf(changes);
          for (const node of nodes) {
            const engine = engineOf(node, cluster);
            const ruleset = rulesetOf(engine.rules);
            for (const list of [addresses[4], addresses[6]]) {
              for (const [at, from] of list.entries()) {
                const to = list[(at + 1) % list.length] ?? '';
                // A pod reaches itself whatever its policies say, which the judge is not asked.
                if (engine.podAt(from) !== undefined && engine.podAt(from) === engine.podAt(to)) continue;
                for (const protocol of ['TCP', 'UDP', 'SCTP', 'ICMP'] as const) {
                  const port = protocol === 'ICMP' ? undefined : portNumbers[at % portNumbers.length];
                  const judgement = judge(cluster.policies, cluster.pods, cluster.namespaces, {
                    ...{ from, to, protocol, port },
                  });
                  for (const direction of directions) {
                    const { verdict, isKnown } = ruleset.decide(direction, {
                      source: parseAddress(from)!,
                      destination: parseAddress(to)!,
                      ...{ protocol: numbers[protocol], port, fromNode: false },
                    });
                    const judged = judgement[direction];
                    const expected = isRefusal(judged) ? judged.verdict : 'allowed';
                    const packet = `${direction} ${from} ${to} ${protocol} ${port}`;
                    const own = engine.podAt(direction === 'egress' ? from : to);
                    if (own !== undefined && engine.rules.pods.has(own)) assert.ok(isKnown, packet);
                    if (isKnown) assert.equal(verdict, expected, packet);
                    else assert.equal(verdict, 'allowed', packet);
                    known += Number(isKnown);
                  }
                }
              }
            }
          }
        }),
        { numRuns: 1500 },
      );
      assertReached(known > 0, 'no packet is known');
    });
  }

  const isUnknown = (ruleset: KernelRuleset, rule: string): void => {
    const ends = { source: parseAddress('10.0.0.1')!, destination: parseAddress('10.0.0.2')! };
    assert.throws(
      () => ruleset.decide('ingress', { ...ends, protocol: 6, port: 80, fromNode: false }),
      { code: errorCodes.UNSUPPORTED },
      rule,
    );
  };

  test('nftables: is not guessed if a rule is not ours', () => {
    for (const rule of [
      'jump mine',
      'ip saddr @gone accept',
      'ip saddr { 10.0.0.1, 10.0.0.9 } accept',
      'ip saddr != 10.0.0.1 accept',
      'tcp sport 80 accept',
      'tcp dport { 80, 443 } accept',
      'ct state new accept',
      'ct state established,new accept',
      'meta mark 0x00000001 accept',
      'limit rate 10/minute burst 10 packets accept',
      'limit rate over 10/minute burst 10 packets log prefix "x" group 1',
      'counter packets 0 bytes 0 accept',
      'dup to 10.0.0.9',
      'reject with icmp host-unreachable',
      'icmp type { echo-request } accept',
    ]) {
      const chain = `\tchain forward-in {\n\t\ttype filter hook forward priority -9; policy accept;\n\t\t${rule}\n\t}`;
      isUnknown(nftablesRuleset(parseTextListing(`table inet mine {\n${chain}\n}\n`)), rule);
    }
  });

  test('iptables: is not guessed if a rule is not ours, or a foreign one precedes them', () => {
    const rules = [
      '-j MINE',
      '-g KUBE-ROUTER-FORWARD',
      '-m set --match-set KUBE-SRC-GONE src -j ACCEPT',
      '-m statistic --mode random --probability 0.5 -j DROP',
      '-m conntrack --ctstate NEW -j ACCEPT',
      '-d 10.0.0.x/32 -j ACCEPT',
      '-p esp -j ACCEPT',
      '-j MARK --set-mark 1',
      '-m comment --comment "no -j DROP"',
    ];
    const kernel = (hook: readonly string[], tail: readonly string[]): KernelRuleset => {
      const four = {
        hooks: new Map([['FORWARD', hook] as const]),
        tops: new Map([['KUBE-ROUTER-FORWARD', { pods: [], tail }] as const]),
        chains: new Map(),
      };
      return iptablesRuleset({ ...noRules, families: { ...noRules.families, 4: four } });
    };
    for (const rule of rules) isUnknown(kernel(['-j KUBE-ROUTER-FORWARD'], [rule]), rule);
    isUnknown(kernel(['after a rule of another program', '-j KUBE-ROUTER-FORWARD'], []), 'before ours');
  });
});
