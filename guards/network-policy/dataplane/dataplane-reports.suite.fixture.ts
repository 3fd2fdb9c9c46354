/** Counts of refused packets, and the prefix that they are logged with. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { reaches } from '../../../test/network-policy/probe.fixture.ts';
import { type DataplaneLab, egress, ingress } from './dataplane-lab.fixture.ts';
import type { NodeRules } from '../engine/rules.ts';
import { changeBetween, nodeRules } from './rules.fixture.ts';

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

  test('pods with the same policies are counted and named each, also as others of them go and come', () =>
    withDataplane(async (dataplane) => {
      const { pods } = lab.network;
      const to = async (pod: string): Promise<void> =>
        void (await reaches(lab.network.host('z/a'), lab.network.host(pod).addresses[4]));
      const [alone, both] = [['x/a'], ['x/a', 'x/b']].map((names) =>
        nodeRules(pods, [{ policy: 'x/same', direction: 'ingress', selects: names, allows: [] }]),
      ) as [NodeRules, NodeRules];
      const counts = async () =>
        (await dataplane.counters()).map(({ pod, packets }) => `${pod} ${packets}`).sort();
      await dataplane.sync(alone);
      await to('x/a');
      await dataplane.apply(both, changeBetween(alone, both));
      for (const pod of ['x/a', 'x/b', 'x/b']) await to(pod);
      assert.deepEqual(await counts(), ['x/a 2', 'x/b 2']);
      await dataplane.apply(alone, changeBetween(both, alone));
      await to('x/a');
      assert.deepEqual(await counts(), ['x/a 3']);
      await dataplane.apply(both, changeBetween(alone, both));
      assert.deepEqual(await counts(), ['x/a 3', 'x/b 0']);
      assert.deepEqual(await dataplane.verify(), []);
      const prefixes = [
        ...under.listing(lab.network.node).matchAll(/(?:log prefix|nflog-prefix) "([^"]+)"/g),
      ];
      const source = lab.network.host('z/a').addresses[4];
      for (const pod of ['x/a', 'x/b']) {
        const destination = lab.network.host(pod).addresses[4];
        const owners = [...prefixes].map(
          ([, prefix = '']) => dataplane.ownerOfLog(prefix, { source, destination })?.pod,
        );
        assert.ok(owners.includes(pod), pod);
      }
    }));

  test('the prefix of a logged packet identifies the refusal', () =>
    withDataplane(
      async (dataplane) => {
        await dataplane.sync(nodeRules(lab.network.pods, [ingress(['x/a']), egress(['y/a'])]));
        const prefixes = under.listing(lab.network.node).matchAll(/(?:log prefix|nflog-prefix) "([^"]+)"/g);
        // One for both families, or one for each.
        const texts = [...new Set([...prefixes].map(([, prefix = '']) => prefix))];
        const [source, destination] = ['y/a', 'x/a'].map((pod) => lab.network.host(pod).addresses[4]) as [
          string,
          string,
        ];
        const ownerOf = (prefix: string) => dataplane.ownerOfLog(prefix, { source, destination });
        const owners = texts.map(ownerOf);
        // For those who read it with another program.
        assert.deepEqual(texts.flatMap((text) => / (x\/\S+) $/.exec(text)?.[1] ?? []).sort(), [
          'x/in-x.a',
          'x/out-y.a',
        ]);
        assert.deepEqual(owners.map((owner) => `${owner?.pod} ${owner?.direction}`).sort(), [
          'undefined egress',
          'undefined ingress',
          'x/a ingress',
          'y/a egress',
        ]);
        assert.equal(ownerOf('rampart class-in-000 '), undefined);
        assert.equal(ownerOf('DROP: '), undefined);
      },
      { unknownPods: 'deny' },
    ));
}
