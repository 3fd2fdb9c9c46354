/** Counts of refused packets, and the prefix that they are logged with. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { reaches } from '../../../test/network-policy/probe.fixture.ts';
import { type DataplaneLab, egress, ingress } from './dataplane-lab.fixture.ts';
import { nodeRules } from './rules.fixture.ts';

export function reportTests(lab: DataplaneLab): void {
  const { under, open, withDataplane } = lab;

  test('refused packets are counted by pod and direction, also over a new start', () =>
    withDataplane(async (dataplane) => {
      const rules = nodeRules(lab.network.pods, [ingress(['x/a']), egress(['y/a'])]);
      await dataplane.sync(rules);
      await reaches(lab.network.host('z/a'), lab.network.host('x/a').addresses[4]);
      await reaches(lab.network.host('z/b'), lab.network.host('x/a').addresses[6]);
      await reaches(lab.network.host('y/a'), lab.network.host('z/a').addresses[4], { protocol: 'UDP' });
      using next = open();
      await next.sync(rules);
      const counts = (await next.counters()).map(
        ({ pod, direction, packets }) => `${pod} ${direction} ${packets}`,
      );
      assert.deepEqual(counts.sort(), ['x/a ingress 2', 'y/a egress 1']);
    }));

  test('the prefix of a logged packet tells whose refusal it is', () =>
    withDataplane(
      async (dataplane) => {
        await dataplane.sync(nodeRules(lab.network.pods, [ingress(['x/a']), egress(['y/a'])]));
        const prefixes = under.listing(lab.network.node).matchAll(/(?:log prefix|nflog-prefix) "([^"]+)"/g);
        // One for both families, or one for each.
        const texts = [...new Set([...prefixes].map(([, prefix = '']) => prefix))];
        const owners = texts.map((prefix) => dataplane.whoseLog(prefix));
        // For those who read it with another program.
        assert.deepEqual(texts.flatMap((text) => / (\S+\/\S+ x\/\S+) $/.exec(text)?.[1] ?? []).sort(), [
          'x/a x/in-x.a',
          'y/a x/out-y.a',
        ]);
        assert.deepEqual(owners.map((owner) => `${owner?.pod} ${owner?.direction}`).sort(), [
          'undefined egress',
          'undefined ingress',
          'x/a ingress',
          'y/a egress',
        ]);
        assert.equal(dataplane.whoseLog('rampart pod-in-000 '), undefined);
        assert.equal(dataplane.whoseLog('DROP: '), undefined);
      },
      { unknownPods: 'deny' },
    ));
}
