import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../../../lib/testing/fast-check.fixture.ts';
import { parseAddress } from '../../engine/addresses.ts';
import { PolicyEngine } from '../../engine/engine.ts';
import { judge } from '../../judge/judge.ts';
import { addresses, change, clusterOf, nodes, portNumbers } from '../../random-cluster.fixture.ts';
import { flowsAllowedBy } from './allowed-flow.ts';

const protocols = { TCP: 6, UDP: 17, SCTP: 132, ICMP: 1 } as const;

suite('an existing connection', () => {
  test('is allowed where the judge would allow it anew, on the nodes of both ends', () => {
    fc.assert(
      fc.property(fc.array(change, { minLength: 4, maxLength: 24, size: 'max' }), (changes) => {
        const cluster = clusterOf(changes);
        const engines = nodes.map((node) => {
          const engine = new PolicyEngine(node);
          for (const one of cluster.namespaces) engine.upsertNamespace(one);
          for (const one of cluster.pods) engine.upsertPod(one);
          for (const one of cluster.policies) engine.upsertPolicy(one);
          return engine;
        });
        const rules = engines.map((engine) => flowsAllowedBy(engine.rules, () => false));
        const local = new Set(
          engines
            .flatMap((engine) => [...engine.rules.pods.values()])
            .flatMap((pod) => [...pod.addresses[4], ...pod.addresses[6]]),
        );
        for (const family of [4, 6] as const) {
          const list = addresses[family];
          for (const [at, from] of list.entries()) {
            const to = list[(at + 1) % list.length] ?? '';
            // A pod reaches itself whatever its policies say.
            if (engines[0]?.podAt(from) !== undefined && engines[0].podAt(from) === engines[0].podAt(to))
              continue;
            for (const [protocol, number] of Object.entries(protocols)) {
              const port = protocol === 'ICMP' ? undefined : portNumbers[at % portNumbers.length];
              const { policies, pods, namespaces } = cluster;
              const { ingress, egress } = judge(policies, pods, namespaces, { from, to, protocol, port });
              const [source, destination] = [parseAddress(from)!.value, parseAddress(to)!.value];
              const flow = {
                ...{ family, protocol: number, isExpected: false, isOver: false },
                original: { source, destination, sourcePort: 40_000, destinationPort: port ?? 0 },
                reply: {
                  source: destination,
                  destination: source,
                  sourcePort: port ?? 0,
                  destinationPort: 40_000,
                },
              };
              const all = rules.every((one) => one(flow));
              // Each node knows its own pods; some are of none yet.
              const allowed =
                (!local.has(to) || ingress.verdict !== 'refused') &&
                (!local.has(from) || egress.verdict !== 'refused');
              assert.equal(all, allowed, `${from} -> ${to} ${protocol} ${port}`);
            }
          }
        }
      }),
      { numRuns: 1500 },
    );
  });
});
