import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';

import { isDeep } from '../../../lib/testing/depth.fixture.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';

import { isRefusal, judge } from '../judge/judge.ts';
import {
  addresses,
  type Change,
  change,
  type Cluster,
  clusterOf,
  nodes,
  portNumbers,
} from '../random-cluster.fixture.ts';
import { PolicyEngine } from './engine.ts';
import { type AddressPacket, verdictOf } from './evaluate.fixture.ts';
import type { PolicyMode } from './monitor.ts';
import { type NodeRules, noRules, type PeersChange, type PeersKey } from './rules.ts';

const numRuns = 2000;

function apply(engine: PolicyEngine, { kind, key, object }: Change): void {
  if (kind === 'pod') {
    if (object === undefined) engine.removePod(key);
    else engine.upsertPod(object);
  } else if (kind === 'policy') {
    if (object === undefined) engine.removePolicy(key);
    else engine.upsertPolicy(object);
  } else if (object === undefined) engine.removeNamespace(key);
  else engine.upsertNamespace(object);
}

function engineOf(node: string, { pods, policies, namespaces }: Cluster, mode?: PolicyMode): PolicyEngine {
  const engine = new PolicyEngine(node, mode);
  for (const one of namespaces) engine.upsertNamespace(one);
  for (const one of pods) engine.upsertPod(one);
  for (const one of policies) engine.upsertPolicy(one);
  return engine;
}

function* everyPacket(): Iterable<AddressPacket> {
  for (const family of [addresses[4], addresses[6]]) {
    for (const from of family) {
      for (const to of family) {
        yield { from, to, protocol: 'ICMP' };
        for (const protocol of ['TCP', 'UDP', 'SCTP']) {
          for (const port of portNumbers) yield { from, to, protocol, port };
        }
      }
    }
  }
}

const packets = [...everyPacket()];
/**
 * Only one part of each cluster is checked, unless the run is deep. There are ten packets of a pair: no part
 * omits a port.
 */
const partCount = isDeep ? 1 : 7;
const partsOfPackets = Array.from({ length: partCount }, (_, part) =>
  packets.filter((_packet, at) => at % partCount === part),
);

/** The keys of what is different, found by looking at all of it. */
function different<T>(before: ReadonlyMap<string, T>, after: ReadonlyMap<string, T>): string[] {
  return [...new Set([...before.keys(), ...after.keys()])].filter(
    (key) => !isDeepStrictEqual(before.get(key), after.get(key)),
  );
}

/** With maps that can be compared, and values that are not made later. */
function copyOf({ pods, policies, peers, podCidrs }: NodeRules): NodeRules {
  return structuredClone({
    ...{ pods: new Map(pods), policies: new Map(policies), peers: new Map(peers) },
    podCidrs,
  });
}

function podsOf({ peers }: NodeRules, key: PeersKey): string[] {
  const { pods } = peers.get(key)!;
  return [...pods[4], ...pods[6]].sort();
}

/** Those before, with what came and without what went: each was there, or was not. */
function podsAfter(before: NodeRules, key: PeersKey, reported: PeersChange): string[] {
  const pods = new Set(podsOf(before, key));
  for (const { gone, come } of [reported[4], reported[6]]) {
    for (const address of gone) assert.ok(pods.delete(address));
    for (const address of come) assert.equal(pods.size + 1, pods.add(address).size);
  }
  return [...pods].sort();
}

suite('the rules of a node', () => {
  test('allow, refuse and monitor what the judge does, for every packet', () => {
    const asked = fc.tuple(fc.constantFrom(...partsOfPackets), fc.constantFrom([], [], [], ['two']));
    fc.assert(
      fc.property(fc.array(change, { minLength: 4, maxLength: 24, size: 'max' }), asked, (changes, given) => {
        const cluster = clusterOf(changes);
        const [some, monitoringNodes] = [given[0], new Set<string>(given[1])];
        const places = nodes.map((node) => {
          const { rules } = engineOf(node, cluster, monitoringNodes.has(node) ? 'monitor' : 'enforce');
          const own = [...rules.pods.values()].flatMap((pod) => Object.values(pod.addresses).flat());
          return { node, rules, local: new Set<string>(own) };
        });
        const { policies, pods, namespaces } = cluster;
        for (const packet of some) {
          const concerned = places.filter(({ local }) => local.has(packet.from) || local.has(packet.to));
          if (concerned.length === 0) continue;
          const { ingress, egress } = judge(policies, pods, namespaces, packet, { monitoringNodes });
          for (const { node, rules, local } of concerned) {
            for (const [direction, mine, judged] of [
              ['ingress', packet.to, ingress],
              ['egress', packet.from, egress],
            ] as const) {
              if (!local.has(mine)) continue;
              const verdict = verdictOf(rules, direction, packet);
              if (verdict === (isRefusal(judged) ? judged.verdict : 'allowed')) continue;
              const what = JSON.stringify({ direction, packet, node, judged });
              assert.fail(`${verdict}: ${what}`);
            }
          }
        }
      }),
      { numRuns: 4000 },
    );
  });

  test('depend only on the present objects, and changes list exactly the differences', () => {
    const step = fc.record({ change, look: fc.boolean(), take: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { minLength: 4, maxLength: 60, size: 'max' }), (steps) => {
        const engine = new PolicyEngine('one');
        let taken = noRules;
        const owned = new Set<string>();
        for (const [at, { change: one, look, take }] of steps.entries()) {
          apply(engine, one);
          if (look || at === steps.length - 1) {
            const done = steps.slice(0, at + 1).map((before) => before.change);
            assert.deepEqual(copyOf(engine.rules), copyOf(engineOf('one', clusterOf(done)).rules));
          }
          if (!take) continue;
          const { touchedPods } = engine;
          const touched = new Set(touchedPods);
          const reported = engine.takeChange();
          assert.deepEqual([...reported.pods.difference(touched)], []);
          assert.deepEqual([...touchedPods], []);
          const { gone, come } = engine.takeAddressChange();
          for (const address of gone) assert.ok(owned.delete(address));
          for (const address of come) assert.equal(owned.size + 1, owned.add(address).size);
          const all = [...addresses[4], ...addresses[6]];
          assert.deepEqual(
            [...owned].sort(),
            all.filter((address) => engine.podAt(address) !== undefined).sort(),
          );
          assert.deepEqual([...reported.pods].sort(), different(taken.pods, engine.rules.pods).sort());
          assert.deepEqual(
            [...reported.policies].sort(),
            different(taken.policies, engine.rules.policies).sort(),
          );
          assert.deepEqual(
            [...reported.peers.keys()].sort(),
            different(taken.peers, engine.rules.peers).sort(),
          );
          for (const [key, peersChange] of reported.peers) {
            if (peersChange !== undefined)
              assert.deepEqual(podsAfter(taken, key, peersChange), podsOf(engine.rules, key));
          }
          taken = engine.rules;
        }
      }),
      { numRuns },
    );
  });

  test('are not changed by what comes after them, and hold no policy that no pod of the node names', () => {
    fc.assert(
      fc.property(
        fc.array(change, { minLength: 4, maxLength: 40, size: 'max' }),
        fc.nat(40),
        (changes, at) => {
          const engine = new PolicyEngine('one');
          for (const one of changes.slice(0, at)) apply(engine, one);
          const before = engine.rules;
          const copy = copyOf(before);
          for (const one of changes.slice(at)) apply(engine, one);
          const { pods, policies } = engine.rules;
          assert.deepEqual(
            [...copy.pods.keys()].map((key) => before.pods.get(key)),
            [...copy.pods.values()],
          );
          assert.deepEqual(copyOf(before), copy);
          const named = [...pods.values()].flatMap(({ ingress, egress }) => [
            ...(ingress ?? []).map((key) => `ingress ${key}`),
            ...(egress ?? []).map((key) => `egress ${key}`),
          ]);
          assert.deepEqual([...policies.keys()].sort(), [...new Set(named)].sort());
          const peers = [...policies.values()].flatMap(({ rules }) =>
            rules.flatMap(({ clauses }) => clauses.map((clause) => clause.peers)),
          );
          const allowed = new Set(peers.filter((key) => key !== 'everyone'));
          assert.deepEqual([...engine.rules.peers.keys()].sort(), [...allowed].sort());
        },
      ),
      { numRuns },
    );
  });
});
