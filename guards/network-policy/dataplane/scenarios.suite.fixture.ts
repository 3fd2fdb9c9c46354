/**
 * Users' policies over real packets: as objects, through the engine and a dataplane, and which pods reach
 * each other then. The judge, which uses neither, has the expected result. Run by the test of each dataplane.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { after, before, suite, test } from 'node:test';

import { deepTest, Random, sampled, scaled, seed } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { type Host, Network } from '../../../test/network-policy/network.fixture.ts';
import { PacketCounter } from '../../../test/network-policy/packet-counter.fixture.ts';
import { type ProbeOptions, reachable, reaches } from '../../../test/network-policy/probe.fixture.ts';
import { sendSctpInit } from '../../../test/network-policy/sctp.fixture.ts';
import { PolicyEngine } from '../engine/engine.ts';
import type { NamespaceObject, PodObject, PolicyObject } from '../engine/objects.ts';
import { judge } from '../judge/judge.ts';
import type { Dataplane, DataplaneOptions } from './dataplane.ts';
import { a, inX, ns, pod, scenarios, tcp80, udp80 } from './scenarios.fixture.ts';

export interface ScenariosUnderTest {
  readonly name: string;
  /** Is called in the node's network namespace. */
  open(options?: Partial<DataplaneOptions>): Dataplane;
  /** That come and go, however small the depth is; default: 60. */
  readonly minPolicies?: number;
}

const nodeName = 'one';
const namespaces: readonly NamespaceObject[] = ['x', 'y', 'z'].map((name) => ({
  metadata: { name, labels: { ns: name, 'kubernetes.io/metadata.name': name } },
}));
const everyProbe: readonly ProbeOptions[] = (['TCP', 'UDP'] as const).flatMap((protocol) =>
  ([4, 6] as const).flatMap((family) => ([80, 81] as const).map((port) => ({ protocol, family, port }))),
);

function podObject({ name: key, addresses }: Host, labels: Readonly<Record<string, string>> = {}): PodObject {
  const [namespace = '', name = ''] = key.split('/');
  return {
    metadata: { namespace, name, labels: { pod: name, ...labels } },
    spec: {
      nodeName,
      containers: [
        {
          ports: (['TCP', 'UDP', 'SCTP'] as const).flatMap((protocol) =>
            [80, 81].map((port) => ({
              name: `serve-${port}-${protocol.toLowerCase()}`,
              containerPort: port,
              protocol,
            })),
          ),
        },
      ],
    },
    status: { phase: 'Running', podIP: addresses[4], podIPs: [{ ip: addresses[4] }, { ip: addresses[6] }] },
  };
}

export function scenariosSuite(under: ScenariosUnderTest, skip: string | undefined): void {
  suite(`scenarios by ${under.name}`, { skip: skip ?? false }, () => {
    let network: Network;
    before(async () => {
      network = await Network.create();
    });
    after(() => network[Symbol.asyncDispose]());
    const hosts = (): Host[] => [...network.pods, network.outside, network.node];

    /** Compares the judge's decision on each pair with packets. */
    async function expectJudged(
      policies: readonly PolicyObject[],
      pods: readonly PodObject[],
      probes: readonly ProbeOptions[],
      places = namespaces,
    ): Promise<void> {
      for (const options of probes) {
        const { protocol = 'TCP', port = 80, family = 4 } = options;
        const endOf = (host: Host): string => host.addresses[family];
        const wanted = hosts().flatMap((from) =>
          hosts()
            .filter((to) => to !== from)
            .filter((to) => {
              const packet = { from: endOf(from), to: endOf(to), family, protocol, port };
              return judge(policies, pods, places, packet, { fromNode: from === network.node }).allowed;
            })
            .map((to) => `${from.name} -> ${to.name}`),
        );
        const found = await reachable(hosts(), options);
        assert.deepEqual([...found].sort(), wanted.sort(), JSON.stringify(options));
      }
    }

    function engineOf(policies: readonly PolicyObject[], pods: readonly PodObject[]): PolicyEngine {
      const engine = new PolicyEngine(nodeName);
      for (const one of namespaces) engine.upsertNamespace(one);
      for (const one of pods) engine.upsertPod(one);
      for (const one of policies) engine.upsertPolicy(one);
      engine.setPodCidrs(['10.1.0.0/24', 'fd00:1::/64']);
      return engine;
    }

    async function withDataplane(work: (dataplane: Dataplane) => Promise<void>): Promise<void> {
      using dataplane = network.node.namespace.run(() => under.open());
      try {
        await work(dataplane);
      } finally {
        await dataplane.remove();
      }
    }

    test(`whoever may talk to whom does, in ${Object.keys(scenarios).length} scenarios (seed ${seed})`, async (t) => {
      for (const [at, [name, policies]] of sampled(Object.entries(scenarios), 5).entries()) {
        await t.test(name, () =>
          withDataplane(async (dataplane) => {
            const pods = network.pods.map((host) => podObject(host));
            await dataplane.sync(engineOf(policies, pods).rules);
            assert.deepEqual(await dataplane.verify(), []);
            // A missing listener would look like a refused connection.
            await expectJudged(policies, pods, sampled(everyProbe, 2, seed + at));
          }),
        );
      }
    });

    test('later changes count: labels of pods and of namespaces, policies that come, change and go', () =>
      withDataplane(async (dataplane) => {
        const pods = new Map(network.pods.map((host) => [host.name, podObject(host)]));
        const policies = new Map<string, PolicyObject>();
        const places = new Map(namespaces.map((one) => [one.metadata.name ?? '', one]));
        const engine = engineOf([], [...pods.values()]);
        await dataplane.sync(engine.rules);
        engine.takeChange();
        const step = async (what: string, change: () => void): Promise<void> => {
          change();
          await dataplane.apply(engine.rules, engine.takeChange());
          assert.deepEqual(await dataplane.verify(), [], what);
          await expectJudged(
            [...policies.values()],
            [...pods.values()],
            [{}, { protocol: 'UDP', family: 6 }],
            [...places.values()],
          );
        };
        const setPolicy = (one: PolicyObject): void => {
          policies.set(one.metadata.name ?? '', one);
          engine.upsertPolicy(one);
        };
        const setPod = (key: string, labels: Readonly<Record<string, string>>): void => {
          const changed = podObject(network.host(key), labels);
          pods.set(key, changed);
          engine.upsertPod(changed);
        };
        const open = inX('p', {
          podSelector: { matchLabels: { closed: 'yes' } },
          ingress: [
            { from: [{ namespaceSelector: { matchLabels: { trusted: 'yes' } }, podSelector: pod('b') }] },
          ],
        });
        await step('a policy for nobody', () => setPolicy(open));
        await step('a pod gets the label', () => setPod('x/a', { closed: 'yes' }));
        await step('a namespace gets the label', () => {
          const one = { metadata: { name: 'y', labels: { ns: 'y', trusted: 'yes' } } };
          places.set('y', one);
          engine.upsertNamespace(one);
        });
        await step('a peer loses its label', () => setPod('y/b', { pod: 'other' }));
        await step('the policy allows more', () =>
          setPolicy(
            inX('p', {
              podSelector: { matchLabels: { closed: 'yes' } },
              ingress: [{ ports: [tcp80, udp80] }],
            }),
          ),
        );
        await step('it is for egress now', () =>
          setPolicy(
            inX('p', {
              podSelector: { matchLabels: { closed: 'yes' } },
              policyTypes: ['Egress'],
              egress: [{ to: [{ namespaceSelector: ns('z') }] }],
            }),
          ),
        );
        await step('a pod is finished: what had its address is nobody', () => {
          const done = podObject(network.host('z/b'));
          const finished = { ...done, status: { ...done.status, phase: 'Succeeded' } };
          pods.set('z/b', finished);
          engine.upsertPod(finished);
        });
        await step('the policy is gone', () => {
          policies.delete('p');
          engine.removePolicy('x/p');
        });
      }));

    test('namespace a with bc and ab with c are not one', () =>
      withDataplane(async (dataplane) => {
        const [one, other] = [network.host('x/a'), network.host('x/b')];
        const named = (host: Host, namespace: string, name: string): PodObject => {
          const object = podObject(host);
          return { ...object, metadata: { ...object.metadata, namespace, name } };
        };
        const pods = [
          named(one, 'a', 'bc'),
          named(other, 'ab', 'c'),
          ...network.pods.filter((host) => host !== one && host !== other).map((host) => podObject(host)),
        ];
        const places = [...namespaces, { metadata: { name: 'a' } }, { metadata: { name: 'ab' } }];
        const policies: PolicyObject[] = [
          {
            metadata: { namespace: 'a', name: 'bc' },
            spec: { podSelector: {}, ingress: [{ ports: [{ port: 80 }] }] },
          },
          {
            metadata: { namespace: 'ab', name: 'c' },
            spec: { podSelector: {}, ingress: [{ ports: [{ port: 81 }] }] },
          },
        ];
        await dataplane.sync(engineOf(policies, pods).rules);
        await expectJudged(policies, pods, [{ port: 80 }, { port: 81 }], places);
      }));

    test('pods of another node: rules are for those of this one, whoever is on the other side', () =>
      withDataplane(async (dataplane) => {
        const isHere = ({ name }: Host): boolean => !name.startsWith('z/');
        const pods = network.pods.map((host) => {
          const object = podObject(host);
          return isHere(host) ? object : { ...object, spec: { ...object.spec, nodeName: 'two' } };
        });
        const policies: PolicyObject[] = [
          inX('in', {
            podSelector: a,
            ingress: [{ from: [{ namespaceSelector: ns('z'), podSelector: pod('b') }] }],
          }),
          {
            metadata: { namespace: 'z', name: 'closed' },
            spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'] },
          },
          {
            metadata: { namespace: 'y', name: 'out' },
            spec: {
              podSelector: a,
              policyTypes: ['Egress'],
              egress: [{ to: [{ namespaceSelector: ns('z') }] }],
            },
          },
        ];
        const { rules } = engineOf(policies, pods);
        assert.deepEqual([...rules.policies.keys()].sort(), ['egress y/out', 'ingress x/in']);
        await dataplane.sync(rules);
        const found = await reachable(network.pods);
        const wanted = network.pods.flatMap((from) =>
          network.pods
            .filter((to) => {
              if (to === from) return false;
              const packet = { from: from.name, to: to.name, protocol: 'TCP', port: 80 };
              const { ingress, egress } = judge(policies, pods, namespaces, packet);
              return (
                (!isHere(to) || ingress.verdict !== 'refused') &&
                (!isHere(from) || egress.verdict !== 'refused')
              );
            })
            .map((to) => `${from.name} -> ${to.name}`),
        );
        assert.deepEqual([...found].sort(), wanted.sort());
      }));

    test('SCTP: its first packet passes where a rule is for it, and for no other', () =>
      withDataplane(async (dataplane) => {
        const pods = network.pods.map((host) => podObject(host));
        const policies = [
          inX('p', {
            podSelector: a,
            ingress: [
              { from: [{ namespaceSelector: ns('y') }], ports: [{ protocol: 'SCTP', port: 80 }] },
              {
                from: [{ namespaceSelector: ns('z') }],
                ports: [{ port: 80 }, { protocol: 'UDP', port: 80 }],
              },
            ],
          }),
        ];
        await dataplane.sync(engineOf(policies, pods).rules);
        const target = network.host('x/a');
        using seen = new PacketCounter(target, { at80: 'sctp dport 80', at81: 'sctp dport 81' });
        let fromPort = 20_000;
        const arrives = (from: string, port: number): boolean => {
          const was = seen.count(`at${port}`);
          // It is there when send(2) returns: all of it is one kernel's.
          sendSctpInit(network.host(from), target.addresses[4], fromPort++, port);
          return seen.count(`at${port}`) > was;
        };
        assert.deepEqual(
          [arrives('y/a', 80), arrives('y/a', 81), arrives('z/a', 80), arrives('x/b', 80)],
          [true, false, false, false],
        );
        await dataplane.sync(engineOf([], pods).rules);
        assert.ok(arrives('z/a', 80) && arrives('x/b', 81));
      }));

    deepTest('a TCP stream loses no byte over 20 full syncs and as many changes', () =>
      withDataplane(async (dataplane) => {
        const pods = network.pods.map((host) => podObject(host));
        const allow = inX('p', { podSelector: a, ingress: [{ from: [{ namespaceSelector: ns('y') }] }] });
        await dataplane.sync(engineOf([allow], pods).rules);
        const [from, to] = [network.host('y/a'), network.host('x/a')];
        const total = scaled(40_000_000);
        let received = 0;
        let sum = 0;
        const server = createServer((socket) => {
          socket
            .on('error', () => undefined)
            .on('data', (data: Buffer) => {
              for (const byte of data) sum = (sum + byte) % 1_000_003;
              received += data.length;
            });
        });
        const listening = once(server, 'listening');
        await to.namespace.runTick(() => server.listen(8080));
        await listening;
        const [socket, connected] = await from.namespace.runTick(() => {
          const started = connect({ host: to.addresses[4], port: 8080 });
          return [started, once(started, 'connect')] as const;
        });
        try {
          await connected;
          const chunk = Buffer.from(Array.from({ length: 20_000 }, (_, at) => at % 251));
          const expected = chunk.reduce((all, byte) => all + byte, 0) * (total / chunk.length);
          let sent = 0;
          const pump = (): void => {
            while (sent < total) {
              sent += chunk.length;
              if (!socket.write(chunk)) return;
            }
          };
          socket.on('drain', pump);
          pump();
          for (let round = 0; round < 20; round++) {
            const more = inX('q', { podSelector: {}, ingress: [{ ports: [{ port: 1000 + round }] }] });
            const engine = engineOf(round % 2 === 0 ? [allow] : [allow, more], pods);
            await dataplane.sync(engine.rules);
            await until('more of the stream', () => received >= (total / 20) * round);
          }
          await until('all of the stream', () => received >= total);
          assert.deepEqual([received, sum], [total, expected % 1_000_003]);
        } finally {
          socket.destroy();
          server.close();
        }
      }),
    );

    test('300 policies that come, change and go: the kernel has what the last of them say', () =>
      withDataplane(async (dataplane) => {
        const random = new Random(seed);
        const pods = network.pods.map((host) => podObject(host));
        const policies = new Map<string, PolicyObject>();
        const engine = engineOf([], pods);
        await dataplane.sync(engine.rules);
        engine.takeChange();
        const count = scaled(300, under.minPolicies ?? 60);
        for (let round = 0; round < count * 2; round++) {
          const name = `p-${random.below(count)}`;
          if (policies.has(name) && random.chance(0.3)) {
            policies.delete(name);
            engine.removePolicy(`x/${name}`);
          } else {
            const one = inX(name, {
              podSelector: pod(random.pick(['a', 'b', 'c'])),
              policyTypes: [random.pick(['Ingress', 'Egress'])],
              ingress: [
                {
                  from: [
                    {
                      namespaceSelector: ns(random.pick(['x', 'y', 'z'])),
                      podSelector: pod(random.pick(['a', 'b', 'c'])),
                    },
                  ],
                  ports: [{ port: random.pick([80, 81]) }],
                },
              ],
              egress: [
                { to: [{ ipBlock: { cidr: `10.1.0.${8 * (1 + random.below(3))}/29` } }], ports: [tcp80] },
              ],
            });
            policies.set(name, one);
            engine.upsertPolicy(one);
          }
          if (random.chance(0.5)) await dataplane.apply(engine.rules, engine.takeChange());
        }
        await dataplane.apply(engine.rules, engine.takeChange());
        assert.deepEqual(await dataplane.verify(), []);
        await expectJudged([...policies.values()], pods, [{}, { port: 81 }]);
        assert.ok(await reaches(network.node, network.host('x/a').addresses[4]));
      }));
  });
}
