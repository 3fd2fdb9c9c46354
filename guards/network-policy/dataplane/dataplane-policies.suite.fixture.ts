/** The effects of policies, by every pair of pods, also for pods that are not known yet. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { reachable } from '../../../test/network-policy/probe.fixture.ts';
import { addressText } from '../engine/addresses.ts';
import { all, type DataplaneLab, egress, inNamespace, ingress } from './dataplane-lab.fixture.ts';
import { addressesOf, blocks, changeBetween, nodeRules, port } from './rules.fixture.ts';

export function policyTests(lab: DataplaneLab): void {
  const { pods, withDataplane, expect, scenario } = lab;

  test('without a policy everybody reaches everybody', async () => {
    await expect(() => all);
    await withDataplane(async (dataplane) => {
      await dataplane.sync(nodeRules(lab.network.pods, []));
      await expect(() => all);
    });
  });

  scenario(
    'nobody reaches a pod, and it reaches everybody',
    () => [ingress(['x/a'])],
    () => (_, to) => to !== 'x/a',
  );

  scenario(
    'a pod is reached by two pods and by all of a namespace',
    () => [
      ingress(['x/a'], { peers: addressesOf(pods('y/b', 'y/c')), ports: 'any' }),
      { ...ingress(['x/a'], { peers: addressesOf(pods('z')), ports: 'any' }), policy: 'x/other' },
    ],
    () => (from, to) => to !== 'x/a' || ['y/b', 'y/c'].includes(from) || inNamespace(from, 'z'),
  );

  scenario(
    'a block, but for what is taken out of it, which another block allows again in part',
    () => [
      // Pods are .10 to .18: all but .12 to .15.
      ingress(
        ['x/a'],
        {
          peers: blocks(
            '10.1.0.0-10.1.0.11',
            '10.1.0.16-10.1.0.255',
            'fd00:1::-fd00:1::11',
            'fd00:1::16-fd00:1::ffff',
          ),
          ports: 'any',
        },
        { peers: blocks('10.1.0.14', 'fd00:1::14'), ports: 'any' },
      ),
    ],
    () => (from, to) => to !== 'x/a' || ['x/b', 'y/b', 'z/a', 'z/b', 'z/c'].includes(from),
  );

  scenario(
    'more blocks than are worth a rule each',
    () => [
      ingress(['x/a'], {
        peers: blocks(
          ...Array.from({ length: 20 }, (_, place) => `10.9.${place}.1-10.9.${place}.200`),
          ...Array.from({ length: 20 }, (_, place) => `fd09:${place + 1}::1-fd09:${place + 1}::1:6`),
          '10.7.0.0-10.7.0.255',
          'fd00:7::-fd00:7::ff',
        ),
        ports: 'any',
      }),
    ],
    () => (from, to) => to !== 'x/a' || from === 'outside',
  );

  scenario(
    'every address of one family',
    () => [ingress(['x/a'], { peers: blocks('0.0.0.0-255.255.255.255'), ports: 'any' })],
    ({ family }) =>
      (_, to) =>
        to !== 'x/a' || family === 4,
  );

  scenario(
    'a pod that reaches one other, and neither its node nor the outside',
    () => [egress(['x/a'], { peers: addressesOf(pods('y/a')), ports: 'any' })],
    () => (from, to) => from !== 'x/a' || to === 'y/a',
  );

  scenario(
    'what a source may send is still looked at for what its destination may get, and the other way round',
    () => [
      egress(['x/a'], { peers: addressesOf(pods('y')), ports: 'any' }),
      ingress(['y/a'], { peers: addressesOf(pods('z')), ports: 'any' }),
      ingress(['z/a'], { peers: addressesOf(pods('x')), ports: 'any' }),
    ],
    () => (from, to) =>
      (from !== 'x/a' || inNamespace(to, 'y')) &&
      (to !== 'y/a' || inNamespace(from, 'z')) &&
      (to !== 'z/a' || inNamespace(from, 'x')),
  );

  scenario(
    'ports, ranges that overlap, and protocols; SCTP isolates too',
    () => [
      ingress(['x/a'], { peers: 'everyone', ports: [port('TCP', 81)] }),
      ingress(['x/b'], {
        peers: 'everyone',
        ports: [port('UDP', 70, 80), port('UDP', 75, 79), port('UDP', 8080)],
      }),
      ingress(['x/c'], { peers: addressesOf(pods('y')), ports: [port('TCP', 0, 65_535)] }),
      ingress(['y/a'], { peers: 'everyone', ports: [port('SCTP', 80)] }),
      egress(['z/a'], { peers: 'everyone', ports: [port('TCP', 80, 80), port('UDP', 81)] }),
    ],
    ({ protocol, port: to80or81 }) =>
      (from, to) =>
        (to !== 'x/a' || (protocol === 'TCP' && to80or81 === 81)) &&
        (to !== 'x/b' || (protocol === 'UDP' && to80or81 === 80)) &&
        (to !== 'x/c' || (protocol === 'TCP' && inNamespace(from, 'y'))) &&
        to !== 'y/a' &&
        (from !== 'z/a' || (protocol === 'TCP') === (to80or81 === 80)),
  );

  scenario(
    'named ports: each pod has its own, and one that nobody has allows nothing',
    () => {
      const endpoint = (name: string, number: number) => ({
        4: [{ address: lab.network.host(name).addresses[4], protocol: 'TCP' as const, port: number }],
        6: [{ address: lab.network.host(name).addresses[6], protocol: 'TCP' as const, port: number }],
      });
      const both = {
        4: [...endpoint('x/a', 80)[4], ...endpoint('x/b', 81)[4]],
        6: [...endpoint('x/a', 80)[6], ...endpoint('x/b', 81)[6]],
      };
      return [
        ingress(['x/a', 'x/b'], { peers: addressesOf(pods('y')), endpoints: both }),
        ingress(['x/c'], { peers: addressesOf(pods('y')), endpoints: { 4: [], 6: [] } }),
        egress(['z/a'], { peers: 'everyone', endpoints: endpoint('y/a', 81) }),
      ];
    },
    ({ protocol, port: number }) =>
      (from, to) =>
        (to !== 'x/a' || (inNamespace(from, 'y') && protocol === 'TCP' && number === 80)) &&
        (to !== 'x/b' || (inNamespace(from, 'y') && protocol === 'TCP' && number === 81)) &&
        to !== 'x/c' &&
        (from !== 'z/a' || (to === 'y/a' && protocol === 'TCP' && number === 81)),
  );

  deepTest('a rule with 70,000 peers: more than a set of the kernel holds by default', () =>
    withDataplane(async (dataplane) => {
      const first = 0x0b00_0000n;
      const others = Array.from({ length: 70_000 }, (_, at) => addressText(4, first + 2n * BigInt(at)));
      const four = [lab.network.host('y/a').addresses[4], ...others];
      const rules = nodeRules(lab.network.pods, [
        ingress(['x/a'], { peers: { pods: { 4: four, 6: [] }, blocks: { 4: [], 6: [] } }, ports: 'any' }),
      ]);
      assert.equal((await dataplane.sync(rules)).refused, undefined);
      assert.deepEqual(await dataplane.verify(), []);
      const found = [...(await reachable(lab.network.pods))].filter((pair) => pair.endsWith(' -> x/a'));
      assert.deepEqual(found, ['y/a -> x/a']);
    }),
  );

  test('pods that are not known yet: nothing but from their node, and all once they are known', () =>
    withDataplane(
      async (dataplane) => {
        const known = lab.network.pods.filter(({ name }) => name !== 'x/a');
        await dataplane.sync(nodeRules(known, []));
        await expect(() => (from, to) => from !== 'x/a' && to !== 'x/a');
        const [rules, later] = [nodeRules(known, []), nodeRules(lab.network.pods, [])];
        await dataplane.apply(later, changeBetween(rules, later));
        await expect(() => all);
        assert.deepEqual(await dataplane.verify(), []);
      },
      { unknownPods: 'deny' },
    ));
}
