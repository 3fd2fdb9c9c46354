/** Programmed changes, changes by other programs, and rules that the kernel rejects. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { sampled } from '../../../lib/testing/depth.fixture.ts';
import { Network } from '../../../test/network-policy/network.fixture.ts';
import { reaches } from '../../../test/network-policy/probe.fixture.ts';
import type { NodeRules, PortRange } from '../engine/rules.ts';
import type { Programmed } from './dataplane.ts';
import {
  all,
  type Allowed,
  type DataplaneLab,
  egress,
  inNamespace,
  ingress,
} from './dataplane-lab.fixture.ts';
import { addressesOf, changeBetween, type GivenPolicy, nodeRules, port } from './rules.fixture.ts';

export function changeTests(lab: DataplaneLab): void {
  const { under, pods, open, withDataplane, expect } = lab;

  test('each change programs the difference: what a sync of the same rules would find to do is nothing', () =>
    withDataplane(async (dataplane) => {
      const without = lab.network.pods.filter(({ name }) => name !== 'z/c');
      const reused = [...without, { name: 'z/new', addresses: lab.network.host('z/c').addresses }];
      const allow = (...names: readonly string[]) =>
        ingress(['x/a'], { peers: addressesOf(pods(...names)), ports: 'any' });
      const steps: [NodeRules, Allowed][] = [
        [nodeRules(lab.network.pods, []), all],
        [nodeRules(lab.network.pods, [allow('y/a')]), (from, to) => to !== 'x/a' || from === 'y/a'],
        [
          nodeRules(lab.network.pods, [allow('y/a', 'z')]),
          (from, to) => to !== 'x/a' || from === 'y/a' || inNamespace(from, 'z'),
        ],
        [
          nodeRules(lab.network.pods, [allow('z/b'), egress(['z/c'])]),
          (from, to) => from !== 'z/c' && (to !== 'x/a' || from === 'z/b'),
        ],
        [nodeRules(without, [allow('z/b')]), (from, to) => to !== 'x/a' || from === 'z/b'],
        [
          nodeRules(lab.network.pods, [allow('z/b'), ingress(['z/c'])]),
          (from, to) => to !== 'z/c' && (to !== 'x/a' || from === 'z/b'),
        ],
        // Another pod gets the address: it inherits nothing.
        [nodeRules(reused, [allow('z/b')]), (from, to) => to !== 'x/a' || from === 'z/b'],
        [nodeRules(reused, []), all],
      ];
      let last = steps[0]![0];
      await dataplane.sync(last);
      for (const [rules, allowed] of steps) {
        const { replacedBecause } = await dataplane.apply(rules, changeBetween(last, rules));
        assert.equal(replacedBecause, undefined);
        last = rules;
        assert.deepEqual(await dataplane.verify(), []);
        using other = open();
        assert.deepEqual(await other.sync(rules), { commands: 0 });
        await expect(() => allowed);
      }
    }));

  for (const { name, do: damage, found } of sampled(under.damages, 1)) {
    test(`drift is reported and repaired: ${name}`, () =>
      withDataplane(async (dataplane) => {
        const rules = nodeRules(lab.network.pods, [
          ingress(['x/a'], { peers: addressesOf(pods('y/a')), ports: 'any' }),
        ]);
        await dataplane.sync(rules);
        damage(lab.network.node);
        assert.equal(dataplane.isUndisturbed(), false);
        const drift = await dataplane.verify();
        assert.match(drift.map(({ what, how }) => `${what} ${how}`).join('\n'), found);
        await dataplane.sync(rules);
        assert.deepEqual(await dataplane.verify(), []);
        await expect(() => (from, to) => to !== 'x/a' || from === 'y/a');
        // Also if a change comes before any look at the kernel.
        damage(lab.network.node);
        const next = nodeRules(lab.network.pods, [
          ingress(['x/a'], { peers: addressesOf(pods('y/b')), ports: 'any' }),
          ingress(['x/b']),
        ]);
        await dataplane.apply(next, changeBetween(rules, next));
        await dataplane.sync(next);
        await expect(() => (from, to) => to !== 'x/b' && (to !== 'x/a' || from === 'y/b'));
      }));
  }

  test('a rejected rule allows nothing; all others hold, and its policy is reported with the field', () =>
    withDataplane(async (dataplane) => {
      // A protocol that no kernel knows, like one whose module is missing.
      const unknown = 'L2TP' as 'TCP';
      const allows = (...ports: PortRange[]): GivenPolicy['allows'][number] => ({
        peers: 'everyone',
        ports,
      });
      const endpoints = {
        4: [{ address: lab.network.host('x/b').addresses[4], protocol: unknown, port: 80 }],
        6: [],
      };
      const good = { ...ingress(['x/c'], allows(port('TCP', 80))), policy: 'x/good' };
      const rules = nodeRules(lab.network.pods, [
        { ...ingress(['x/a'], allows(port('TCP', 81)), allows(port(unknown, 80))), policy: 'x/bad' },
        {
          ...ingress(['x/b'], { peers: 'everyone', endpoints }, allows(port('TCP', 81))),
          policy: 'x/worse',
        },
        good,
      ]);
      const fields = (refused: Programmed['refused'] = []): string[] =>
        [...new Set(refused.map(({ policy, field }) => `${policy} ${field}`))].sort();
      const expected = ['x/bad spec.ingress[1]', 'x/worse spec.ingress[0]'];
      assert.deepEqual(fields((await dataplane.sync(rules)).refused), expected);
      const from = lab.network.host('y/a');
      const opened = await Promise.all(
        ['x/a', 'x/b', 'x/c'].flatMap((name) =>
          [80, 81].map(async (number) => {
            const answered = await reaches(from, lab.network.host(name).addresses[4], { port: number });
            return answered ? [`${name} ${number}`] : [];
          }),
        ),
      );
      assert.deepEqual(opened.flat(), ['x/a 81', 'x/b 81', 'x/c 80']);
      assert.deepEqual(await dataplane.verify(), []);
      // A later one is left out as well, and a refused rule is reported as long as it exists.
      const worse = nodeRules(lab.network.pods, [
        { ...ingress(['x/a'], allows(port(unknown, 80))), policy: 'x/bad' },
        good,
      ]);
      assert.deepEqual(fields((await dataplane.apply(worse, changeBetween(rules, worse))).refused), [
        'x/bad spec.ingress[0]',
      ]);
      const better = nodeRules(lab.network.pods, [
        { ...ingress(['x/a'], allows(port('TCP', 80))), policy: 'x/bad' },
        good,
      ]);
      assert.deepEqual((await dataplane.apply(better, changeBetween(worse, better))).refused, undefined);
      assert.ok(await reaches(from, lab.network.host('x/a').addresses[4]));
      assert.deepEqual(await dataplane.verify(), []);
    }));

  test('a new start takes over what is there, and at no moment is a closed pod open', async () => {
    // A network that has no connections yet: those would go on.
    await using fresh = await Network.create();
    const { node } = fresh;
    const closed = [ingress(['x/a'], { peers: addressesOf(pods('z')), ports: 'any' }), egress(['y/a'])];
    const rules = [
      nodeRules(fresh.pods, closed),
      nodeRules(fresh.pods, [...closed, { ...closed[0]!, policy: 'x/more', selects: ['x/a', 'x/b'] }]),
      nodeRules(pods('x', 'z'), [{ ...closed[0]!, policy: 'x/else' }]),
    ] as const;
    using dataplane = node.namespace.run(() => under.open());
    await dataplane.sync(rules[0]);
    // Each datagram is a connection of its own.
    let passed = 0;
    fresh.watchUdp('x/a', () => passed++);
    const target = fresh.host('x/a').addresses[4];
    fresh.spawn(fresh.host('y/b'), `while :; do echo x > /dev/udp/${target}/80; done 2> /dev/null`);
    const refused = async (): Promise<number> =>
      (await dataplane.counters()).reduce((sum, { packets }) => sum + packets, 0);
    const waitForRefusals = async (): Promise<void> => {
      const before10 = (await refused()) + 10;
      while ((await refused()) < before10) await new Promise((resolve) => setTimeout(resolve, 5));
    };
    for (let round = 0; round < (under.restarts ?? 60); round++) {
      using next = node.namespace.run(() => under.open({ unknownPods: round % 2 === 0 ? 'deny' : 'allow' }));
      await next.sync(rules[round % 3]!);
      if (round % 6 === 0) under.makeOld(node);
      if (round % 10 === 0) await waitForRefusals();
    }
    assert.equal(passed, 0);
  });
}
