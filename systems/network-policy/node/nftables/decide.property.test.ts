import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../../../shared/observe/fast-check.fixture.ts';
import { errorCodes } from '../../../../shared/observe/errors.ts';
import { parseAddress } from '../../engine/addresses.ts';
import { PolicyEngine } from '../../engine/engine.ts';
import { directions } from '../../engine/rules.ts';
import { judge } from '../../judge/judge.ts';
import {
  addresses,
  change,
  type Cluster,
  clusterOf,
  nodes,
  portNumbers,
} from '../../random-cluster.fixture.ts';
import { wholeTable } from './whole-table.fixture.ts';
import { decideInKernel } from './decide.ts';
import { objectsOf, type TableObjects } from './objects.ts';

const numbers = { TCP: 6, UDP: 17, SCTP: 132, ICMP: 1 } as const;

function kernelOf(
  node: string,
  { pods, policies, namespaces }: Cluster,
): { engine: PolicyEngine; table: TableObjects } {
  const engine = new PolicyEngine(node);
  for (const one of namespaces) engine.upsertNamespace(one);
  for (const one of pods) engine.upsertPod(one);
  for (const one of policies) engine.upsertPolicy(one);
  const { rules } = engine;
  const table = wholeTable(rules);
  return { engine, table };
}

suite('what the rules in the kernel do', () => {
  test('is what the judge says, for every packet to or from a pod of the node', () => {
    fc.assert(
      fc.property(fc.array(change, { minLength: 4, maxLength: 24, size: 'max' }), (changes) => {
        const cluster = clusterOf(changes);
        for (const node of nodes) {
          const { engine, table } = kernelOf(node, cluster);
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
                  const { verdict, isKnown } = decideInKernel(table, direction, {
                    source: parseAddress(from)!,
                    destination: parseAddress(to)!,
                    ...{ protocol: numbers[protocol], port, fromNode: false },
                  });
                  const expected = judgement[direction].verdict === 'refused' ? 'refused' : 'allowed';
                  if (isKnown)
                    assert.equal(verdict, expected, `${direction} ${from} ${to} ${protocol} ${port}`);
                  else assert.equal(verdict, 'allowed');
                }
              }
            }
          }
        }
      }),
      { numRuns: 1500 },
    );
  });

  test('is not guessed where a rule is none of ours', () => {
    const rules = [
      'jump mine',
      'ip saddr @gone accept',
      'ip daddr 10.0.0.x accept',
      'meta mark 1 accept',
      'dup',
    ];
    for (const rule of rules) {
      const table = objectsOf([{ kind: 'chain', name: 'forward-in', rules: [rule] }]);
      assert.throws(
        () =>
          decideInKernel(table, 'ingress', {
            source: parseAddress('10.0.0.1')!,
            destination: parseAddress('10.0.0.2')!,
            ...{ protocol: 6, port: 80, fromNode: false },
          }),
        { code: errorCodes.UNSUPPORTED },
        rule,
      );
    }
  });
});
