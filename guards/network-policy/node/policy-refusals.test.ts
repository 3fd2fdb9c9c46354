import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { PolicyEngine } from '../engine/engine.ts';
import type { PodObject } from '../engine/objects.ts';
import type { Direction } from '../engine/rules.ts';
import type { Refused } from '../dataplane/dataplane.ts';
import { PolicyRefusals } from './policy-refusals.ts';

function podOf(name: string, address: string): PodObject {
  return {
    metadata: { namespace: 'x', name, labels: { pod: name } },
    spec: { nodeName: 'node' },
    status: { podIP: address },
  };
}

function engineOf(...policies: readonly (readonly [name: string, pod: string | undefined])[]): PolicyEngine {
  const engine = new PolicyEngine('node');
  engine.upsertPod(podOf('a', '10.0.0.1'));
  engine.upsertPod(podOf('b', '10.0.0.2'));
  for (const [name, pod] of policies) {
    const podSelector = pod === undefined ? {} : { matchLabels: { pod } };
    engine.upsertPolicy({ metadata: { namespace: 'x', name }, spec: { podSelector } });
  }
  return engine;
}

const counter = (pod: string | undefined, packets: number, direction: Direction = 'ingress'): Refused => ({
  pod,
  direction,
  packets,
  ...{ verdict: 'refused', bytes: packets * 60 },
});

const shown = (all: ReturnType<PolicyRefusals['add']>): Record<string, number> =>
  Object.fromEntries(
    all.map(({ policy, direction, packets, bytes }) => {
      assert.equal(bytes, packets * 60);
      return [`${direction} ${policy}`, packets];
    }),
  );

suite('refused packets by policy', () => {
  test('each counts for all policies that isolate the pod, from the first reading on', () => {
    const { rules } = engineOf(['all', undefined], ['only-a', 'a']);
    const refusals = new PolicyRefusals();
    const first = refusals.add([counter('x/a', 7), counter('x/b', 5), counter(undefined, 3)], rules);
    assert.deepEqual(shown(first), { 'ingress x/all': 0, 'ingress x/only-a': 0 });
    const second = refusals.add([counter('x/a', 9), counter('x/b', 6), counter(undefined, 9)], rules);
    assert.deepEqual(shown(second), { 'ingress x/all': 3, 'ingress x/only-a': 2 });
    const third = refusals.add([counter('x/a', 9), counter('x/b', 6)], rules);
    assert.deepEqual(shown(third), shown(second));
  });

  test('those that would be refused are counted apart', () => {
    const { rules } = engineOf(['all', undefined]);
    const refusals = new PolicyRefusals();
    const monitored = (packets: number): Refused => ({ ...counter('x/a', packets), verdict: 'would-refuse' });
    refusals.add([counter('x/a', 1), monitored(5)], rules);
    const sums = refusals.add([counter('x/a', 2), monitored(9)], rules);
    assert.deepEqual(
      sums.map(({ verdict, packets }) => [verdict, packets]),
      [
        ['refused', 1],
        ['would-refuse', 4],
      ],
    );
  });

  test('a recreated counter counts from 0, as does that of a new pod', () => {
    const { rules } = engineOf(['all', undefined]);
    const refusals = new PolicyRefusals();
    refusals.add([counter('x/a', 7)], rules);
    assert.deepEqual(shown(refusals.add([counter('x/a', 2)], rules)), { 'ingress x/all': 2 });
    assert.deepEqual(shown(refusals.add([counter('x/a', 3), counter('x/b', 4)], rules)), {
      'ingress x/all': 7,
    });
    refusals.add([counter('x/a', 3)], rules);
    assert.deepEqual(shown(refusals.add([counter('x/a', 3), counter('x/b', 4)], rules)), {
      'ingress x/all': 11,
    });
  });

  test('counts are for the present policies; those that no longer isolate a pod are gone', () => {
    const engine = engineOf(['all', undefined], ['only-a', 'a']);
    const refusals = new PolicyRefusals();
    refusals.add([counter('x/a', 0)], engine.rules);
    refusals.add([counter('x/a', 1)], engine.rules);
    engine.removePolicy('x/only-a');
    engine.upsertPolicy({
      metadata: { namespace: 'x', name: 'out' },
      spec: { podSelector: {}, policyTypes: ['Egress'] },
    });
    assert.deepEqual(shown(refusals.add([counter('x/a', 3), counter('x/a', 5, 'egress')], engine.rules)), {
      'ingress x/all': 3,
      'egress x/out': 5,
    });
    assert.deepEqual(shown(refusals.add([], engine.rules)), {});
    assert.deepEqual(shown(refusals.add([counter('x/a', 4)], engine.rules)), { 'ingress x/all': 4 });
  });
});
