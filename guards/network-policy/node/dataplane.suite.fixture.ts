/**
 * What every dataplane has to make true, by packets between pods: run by the test of each. It is long because all of it uses one
 * set of namespaces, which takes longer to make than the packets.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, suite, test } from 'node:test';

import { icmpErrors, sendIcmpError } from '../../../test/network-policy/icmp.fixture.ts';
import { type Host, Network } from '../../../test/network-policy/network.fixture.ts';
import { PacketCounter } from '../../../test/network-policy/packet-counter.fixture.ts';
import {
  connects,
  type ProbeOptions,
  reachable,
  reaches,
} from '../../../test/network-policy/probe.fixture.ts';
import { deepTest, sampled, seed } from '../../../lib/testing/depth.fixture.ts';
import { addressText } from '../engine/addresses.ts';
import type { NodeRules, PortRange } from '../engine/rules.ts';
import type { Dataplane, DataplaneOptions, Programmed } from './dataplane.ts';
import { addressesOf, blocks, changeBetween, type GivenPolicy, nodeRules, port } from './rules.fixture.ts';

export interface DataplaneUnderTest {
  readonly name: string;
  /** Is called in the node's network namespace. */
  open(options?: Partial<DataplaneOptions>): Dataplane;
  /** All of the node's kernel that a dataplane could touch, ours and others', without counts. */
  listing(node: Host): string;
  /** Adds what others have there: ours holds beside it. */
  addForeign(node: Host): void;
  /** Sends what comes to this node's port to a pod: a Service's NodePort. */
  addNodePort(node: Host, nodePort: number, address: string, port: number): void;
  /** Puts what an older version could have programmed in place of ours: as closed, and not to be changed where it is. */
  makeOld(node: Host): void;
  /** Of a dataplane while packets come; default: 60. */
  readonly restarts?: number;
  /** Somebody's mistakes, each with what is to be found. */
  readonly damages: readonly { readonly name: string; do(node: Host): void; readonly found: RegExp }[];
}

/** For what is lost where it should not be: a test that fails ends, too. */
const answerTimeoutMs = 10_000;

type Allowed = (from: string, to: string) => boolean;
const all: Allowed = () => true;
const inNamespace = (name: string, namespace: string): boolean => name.startsWith(`${namespace}/`);
const everyProbe: readonly ProbeOptions[] = (['TCP', 'UDP'] as const).flatMap((protocol) =>
  ([4, 6] as const).flatMap((family) =>
    ([80, 81] as const).map((each) => ({ protocol, family, port: each })),
  ),
);

export function dataplaneSuite(under: DataplaneUnderTest, skip: string | undefined): void {
  suite(`${under.name} dataplane`, { skip: skip ?? false }, () => {
    let network: Network;
    before(async () => {
      network = await Network.create();
      under.addForeign(network.node);
    });
    after(() => network[Symbol.asyncDispose]());

    const hosts = (): Host[] => [...network.pods, network.outside, network.node];
    const pods = (...names: readonly string[]): Host[] =>
      network.pods.filter(({ name }) => names.some((each) => each === name || each === name.split('/')[0]));
    const open = (options?: Partial<DataplaneOptions>): Dataplane =>
      network.node.namespace.run(() => under.open(options));

    let expectations = 0;
    /** The whole matrix, by some protocols, families and ports, at depth 1 by each. A node always reaches its pods. */
    async function expect(allowed: (options: ProbeOptions) => Allowed): Promise<void> {
      for (const options of sampled(everyProbe, 3, seed + expectations++)) {
        const wanted = hosts().flatMap((from) =>
          hosts()
            .filter((to) => to !== from && (from === network.node || allowed(options)(from.name, to.name)))
            .map((to) => `${from.name} -> ${to.name}`),
        );
        const found = await reachable(hosts(), options);
        assert.deepEqual([...found].sort(), wanted.sort(), JSON.stringify(options));
      }
    }

    /** With a dataplane that is removed at the end, so that the next test begins with nothing. */
    async function withDataplane(
      work: (dataplane: Dataplane) => Promise<void>,
      options?: Partial<DataplaneOptions>,
    ): Promise<void> {
      using dataplane = open(options);
      try {
        await work(dataplane);
      } finally {
        await dataplane.remove();
      }
    }

    /** Programs the policies for all pods and looks who reaches whom. */
    function scenario(
      name: string,
      policies: () => readonly GivenPolicy[],
      allowed: (options: ProbeOptions) => Allowed,
    ): void {
      test(name, () =>
        withDataplane(async (dataplane) => {
          await dataplane.sync(nodeRules(network.pods, policies()));
          assert.deepEqual(await dataplane.verify(), []);
          await expect(allowed);
        }),
      );
    }

    const ingress = (selects: readonly string[], ...allows: GivenPolicy['allows']): GivenPolicy => ({
      policy: `x/in-${selects.join('-').replaceAll('/', '.')}`,
      direction: 'ingress',
      selects,
      allows,
    });
    const egress = (selects: readonly string[], ...allows: GivenPolicy['allows']): GivenPolicy => ({
      ...ingress(selects, ...allows),
      policy: `x/out-${selects.join('-').replaceAll('/', '.')}`,
      direction: 'egress',
    });

    test('without a policy everybody reaches everybody', async () => {
      await expect(() => all);
      await withDataplane(async (dataplane) => {
        await dataplane.sync(nodeRules(network.pods, []));
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
          4: [{ address: network.host(name).addresses[4], protocol: 'TCP' as const, port: number }],
          6: [{ address: network.host(name).addresses[6], protocol: 'TCP' as const, port: number }],
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
        const four = [network.host('y/a').addresses[4], ...others];
        const rules = nodeRules(network.pods, [
          ingress(['x/a'], { peers: { pods: { 4: four, 6: [] }, blocks: { 4: [], 6: [] } }, ports: 'any' }),
        ]);
        assert.equal((await dataplane.sync(rules)).refused, undefined);
        assert.deepEqual(await dataplane.verify(), []);
        const found = [...(await reachable(network.pods))].filter((pair) => pair.endsWith(' -> x/a'));
        assert.deepEqual(found, ['y/a -> x/a']);
      }),
    );

    test('a NodePort of its own node leads no pod past its rules', async () => {
      const [allowed, refused, local] = [30_080, 30_081, 30_082];
      under.addNodePort(network.node, allowed, network.host('y/a').addresses[4], 80);
      under.addNodePort(network.node, refused, network.host('z/a').addresses[4], 80);
      under.addNodePort(network.node, local, '10.1.0.1', 80);
      const nodePorts = (from: Host) =>
        Promise.all(
          [allowed, refused, local].map((each) => reaches(from, network.node.addresses[4], { port: each })),
        );
      assert.deepEqual(await nodePorts(network.host('x/a')), [true, true, true]);
      await withDataplane(async (dataplane) => {
        await dataplane.sync(
          nodeRules(network.pods, [egress(['x/a'], { peers: addressesOf(pods('y/a')), ports: 'any' })]),
        );
        assert.deepEqual(await nodePorts(network.host('x/a')), [true, false, false]);
        assert.deepEqual(await nodePorts(network.host('x/b')), [true, true, true]);
      });
    });

    test('a Service leads a pod back to itself, whatever its rules', async () => {
      under.addNodePort(network.node, 30_090, network.host('x/a').addresses[4], 80);
      await withDataplane(async (dataplane) => {
        await dataplane.sync(nodeRules(network.pods, [egress(['x/a']), ingress(['x/a'])]));
        assert.ok(await reaches(network.host('x/a'), network.node.addresses[4], { port: 30_090 }));
        assert.ok(!(await reaches(network.host('x/b'), network.node.addresses[4], { port: 30_090 })));
      });
    });

    test('pods that are not known yet: nothing but from their node, and all once they are known', () =>
      withDataplane(
        async (dataplane) => {
          const known = network.pods.filter(({ name }) => name !== 'x/a');
          await dataplane.sync(nodeRules(known, []));
          await expect(() => (from, to) => from !== 'x/a' && to !== 'x/a');
          const [rules, later] = [nodeRules(known, []), nodeRules(network.pods, [])];
          await dataplane.apply(later, changeBetween(rules, later));
          await expect(() => all);
          assert.deepEqual(await dataplane.verify(), []);
        },
        { unknownPods: 'deny' },
      ));

    for (const unknownPods of ['allow', 'deny'] as const) {
      test(`ICMP errors pass only for a connection; unknown pods: ${unknownPods}`, () =>
        withDataplane(
          async (dataplane) => {
            const known = network.pods.filter(({ name }) => unknownPods === 'allow' || name !== 'x/a');
            const reached = egress(['x/a'], { peers: addressesOf(pods('y/a')), ports: 'any' });
            await dataplane.sync(nodeRules(known, [ingress(['x/a']), reached, egress(['y/b'])]));
            const passed: string[] = [];
            for (const [from, to] of [
              ['z/a', 'x/a'],
              ['outside', 'x/a'],
              ['y/b', 'z/a'],
              ['y/b', 'outside'],
              ['y/b', 'node'],
              ['x/a', 'z/b'],
            ] as const) {
              const icmp = { four: 'ip protocol icmp', six: 'icmpv6 type 1-4' };
              using seen = new PacketCounter(network.host(to), icmp);
              for (const family of [4, 6] as const) {
                for (const type of icmpErrors[family]) {
                  sendIcmpError(network.host(from), network.host(to).addresses[family], type);
                }
              }
              for (const name of ['four', 'six'])
                if (seen.count(name) > 0) passed.push(`${from} -> ${to} ${name}`);
            }
            assert.deepEqual(passed, []);
            // A port where nobody listens is told at once, past rules that let nothing in.
            await dataplane.sync(nodeRules(network.pods, [ingress(['y/a'])]));
            for (const family of [4, 6] as const) {
              const { addresses } = network.host('z/a');
              assert.equal(await connects(network.host('y/a'), addresses[family], 9, 'UDP'), 'refused');
            }
          },
          { unknownPods },
        ));
    }

    test('a connection goes on over every change, also where it would not be allowed anew', () =>
      withDataplane(async (dataplane) => {
        const open80 = nodeRules(network.pods, []);
        const closed = nodeRules(network.pods, [ingress(['x/a']), egress(['y/a'])]);
        await dataplane.sync(open80);
        const socket = await network
          .host('y/a')
          .namespace.runTick(() => connect({ host: network.host('x/a').addresses[4], port: 80 }));
        try {
          const echoes = async (): Promise<void> => {
            const answer = once(socket, 'data', { signal: AbortSignal.timeout(answerTimeoutMs) });
            socket.write('!');
            await answer;
          };
          await echoes();
          await dataplane.apply(closed, changeBetween(open80, closed));
          assert.ok(!(await reaches(network.host('y/a'), network.host('x/a').addresses[4])));
          await echoes();
          await dataplane.sync(closed);
          await echoes();
        } finally {
          socket.destroy();
        }
      }));

    test('idle: nobody is refused, and the connections that are open then go on when rules come', async () => {
      // In which nothing else has the kernel track connections.
      await using fresh = await Network.create();
      using dataplane = fresh.node.namespace.run(() => under.open());
      assert.equal(await dataplane.isEnforcing(), false);
      await dataplane.idle();
      assert.equal(await dataplane.isEnforcing(), false);
      const [pod, peer] = [fresh.host('x/a'), fresh.host('y/a')];
      const opened: Socket[] = [];
      try {
        for (const family of [4, 6] as const) {
          for (const [from, to] of [
            [peer, pod],
            [pod, peer],
            [fresh.outside, pod],
          ] as const) {
            const host = to.addresses[family];
            opened.push(await from.namespace.runTick(() => connect({ host, port: 80 })));
          }
        }
        const echoes = async (socket: Socket): Promise<void> => {
          const answer = once(socket, 'data', { signal: AbortSignal.timeout(answerTimeoutMs) });
          socket.write('!');
          await answer;
        };
        for (const socket of opened) await echoes(socket);
        await dataplane.sync(nodeRules(fresh.pods, [ingress(['x/a']), egress(['x/a'])]));
        assert.equal(await dataplane.isEnforcing(), true);
        assert.equal(await reaches(peer, pod.addresses[4]), false);
        for (const socket of opened) await echoes(socket);
        await dataplane.idle();
        assert.equal(await dataplane.isEnforcing(), false);
        assert.ok(await reaches(peer, pod.addresses[4]));
        assert.notDeepEqual(await dataplane.remove(), []);
        assert.deepEqual(await dataplane.remove(), []);
      } finally {
        for (const socket of opened) socket.destroy();
      }
    });

    test('each change programs the difference: what a sync of the same rules would find to do is nothing', () =>
      withDataplane(async (dataplane) => {
        const without = network.pods.filter(({ name }) => name !== 'z/c');
        const reused = [...without, { name: 'z/new', addresses: network.host('z/c').addresses }];
        const allow = (...names: readonly string[]) =>
          ingress(['x/a'], { peers: addressesOf(pods(...names)), ports: 'any' });
        const steps: [NodeRules, Allowed][] = [
          [nodeRules(network.pods, []), all],
          [nodeRules(network.pods, [allow('y/a')]), (from, to) => to !== 'x/a' || from === 'y/a'],
          [
            nodeRules(network.pods, [allow('y/a', 'z')]),
            (from, to) => to !== 'x/a' || from === 'y/a' || inNamespace(from, 'z'),
          ],
          [
            nodeRules(network.pods, [allow('z/b'), egress(['z/c'])]),
            (from, to) => from !== 'z/c' && (to !== 'x/a' || from === 'z/b'),
          ],
          [nodeRules(without, [allow('z/b')]), (from, to) => to !== 'x/a' || from === 'z/b'],
          [
            nodeRules(network.pods, [allow('z/b'), ingress(['z/c'])]),
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

    for (const { name, do: damage, found } of sampled(under.damages, 2)) {
      test(`drift is told and repaired: ${name}`, () =>
        withDataplane(async (dataplane) => {
          const rules = nodeRules(network.pods, [
            ingress(['x/a'], { peers: addressesOf(pods('y/a')), ports: 'any' }),
          ]);
          await dataplane.sync(rules);
          damage(network.node);
          const drift = await dataplane.verify();
          assert.match(drift.map(({ what, how }) => `${what} ${how}`).join('\n'), found);
          await dataplane.sync(rules);
          assert.deepEqual(await dataplane.verify(), []);
          await expect(() => (from, to) => to !== 'x/a' || from === 'y/a');
          // And where a change comes before anybody has looked.
          damage(network.node);
          const next = nodeRules(network.pods, [
            ingress(['x/a'], { peers: addressesOf(pods('y/b')), ports: 'any' }),
            ingress(['x/b']),
          ]);
          await dataplane.apply(next, changeBetween(rules, next));
          await dataplane.sync(next);
          await expect(() => (from, to) => to !== 'x/b' && (to !== 'x/a' || from === 'y/b'));
        }));
    }

    test('a rule that is not taken allows nothing; all others hold, and its policy is told with the field', () =>
      withDataplane(async (dataplane) => {
        // A protocol that no kernel knows, as one whose module is not there.
        const unknown = 'L2TP' as 'TCP';
        const allows = (...ports: PortRange[]): GivenPolicy['allows'][number] => ({
          peers: 'everyone',
          ports,
        });
        const endpoints = {
          4: [{ address: network.host('x/b').addresses[4], protocol: unknown, port: 80 }],
          6: [],
        };
        const good = { ...ingress(['x/c'], allows(port('TCP', 80))), policy: 'x/good' };
        const rules = nodeRules(network.pods, [
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
        const from = network.host('y/a');
        const opened = await Promise.all(
          ['x/a', 'x/b', 'x/c'].flatMap((name) =>
            [80, 81].map(async (number) => {
              const answered = await reaches(from, network.host(name).addresses[4], { port: number });
              return answered ? [`${name} ${number}`] : [];
            }),
          ),
        );
        assert.deepEqual(opened.flat(), ['x/a 81', 'x/b 81', 'x/c 80']);
        assert.deepEqual(await dataplane.verify(), []);
        // One that comes later is left out as well, and what was refused is told as long as it is.
        const worse = nodeRules(network.pods, [
          { ...ingress(['x/a'], allows(port(unknown, 80))), policy: 'x/bad' },
          good,
        ]);
        assert.deepEqual(fields((await dataplane.apply(worse, changeBetween(rules, worse))).refused), [
          'x/bad spec.ingress[0]',
        ]);
        const better = nodeRules(network.pods, [
          { ...ingress(['x/a'], allows(port('TCP', 80))), policy: 'x/bad' },
          good,
        ]);
        assert.deepEqual((await dataplane.apply(better, changeBetween(worse, better))).refused, undefined);
        assert.ok(await reaches(from, network.host('x/a').addresses[4]));
        assert.deepEqual(await dataplane.verify(), []);
      }));

    test('refused packets are counted by pod and direction, also over a new start', () =>
      withDataplane(async (dataplane) => {
        const rules = nodeRules(network.pods, [ingress(['x/a']), egress(['y/a'])]);
        await dataplane.sync(rules);
        await reaches(network.host('z/a'), network.host('x/a').addresses[4]);
        await reaches(network.host('z/b'), network.host('x/a').addresses[6]);
        await reaches(network.host('y/a'), network.host('z/a').addresses[4], { protocol: 'UDP' });
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
          await dataplane.sync(nodeRules(network.pods, [ingress(['x/a']), egress(['y/a'])]));
          const prefixes = under.listing(network.node).matchAll(/(?:log prefix|nflog-prefix) "([^"]+)"/g);
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

    test('pods of one bridge, with br_netfilter', async (t) => {
      await using bridged = await Network.create({ bridge: true });
      if (!bridged.filterBridge()) {
        t.skip('this kernel has no br_netfilter');
        return;
      }
      const from = bridged.pods.filter(({ name }) => inNamespace(name, 'y'));
      using dataplane = bridged.node.namespace.run(() => under.open());
      await dataplane.sync(
        nodeRules(bridged.pods, [
          ingress(['x/a'], { peers: addressesOf(from), ports: 'any' }),
          // It still answers who asks for its address.
          egress(['x/a']),
        ]),
      );
      for (const options of sampled(everyProbe, 3)) {
        const found = [...(await reachable(bridged.pods, options))].filter((pair) =>
          pair.endsWith(' -> x/a'),
        );
        assert.deepEqual(found.sort(), ['y/a -> x/a', 'y/b -> x/a', 'y/c -> x/a'], JSON.stringify(options));
      }
    });

    for (const bridge of [false, true]) {
      test(`who is refused through a Service is told; pods ${bridge ? 'of one bridge' : 'with a route each'}`, async (t) => {
        await using fresh = await Network.create({ bridge });
        if (bridge && !fresh.filterBridge()) {
          t.skip('this kernel has no br_netfilter');
          return;
        }
        const services = fresh.addServices(['x/a', 'x/b']);
        using dataplane = fresh.node.namespace.run(() => under.open());
        await dataplane.sync(nodeRules(fresh.pods, [ingress(['x/a']), egress(['y/b'])]));
        const told: string[] = [];
        const expected: string[] = [];
        for (const [from, to] of [
          ['y/a', 'x/a'],
          ['outside', 'x/a'],
          ['y/b', 'x/b'],
          ['y/a', 'x/b'],
        ] as const) {
          for (const protocol of ['TCP', 'UDP'] as const) {
            for (const family of [4, 6] as const) {
              const name = `${from} -> ${to} ${protocol} IPv${family}`;
              const address = services.get(to)?.[family] ?? '';
              told.push(`${name}: ${await connects(fresh.host(from), address, 80, protocol)}`);
              expected.push(`${name}: ${from === 'y/a' && to === 'x/b' ? 'answered' : 'refused'}`);
            }
          }
        }
        assert.deepEqual(told, expected);
      });
    }

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
        using next = node.namespace.run(() =>
          under.open({ unknownPods: round % 2 === 0 ? 'deny' : 'allow' }),
        );
        await next.sync(rules[round % 3]!);
        if (round % 6 === 0) under.makeOld(node);
        if (round % 10 === 0) await waitForRefusals();
      }
      assert.equal(passed, 0);
    });
  });
}
