// Refusals are reported: by a line with both ends and the closest rule, by an event, by counts.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { until } from '../../lib/testing/until.fixture.ts';
import { readFinding } from '../../guard/stream/read-finding.ts';
import { noOtherRules, type OtherRules } from '../../guards/network-policy/other-rules/other-rules.ts';
import { refusalLines } from '../../guards/network-policy/refusal-line.ts';
import { openIptablesDataplane } from '../../guards/network-policy/dataplane/iptables/dataplane.ts';
import { iptablesObstacle } from '../../guards/network-policy/dataplane/iptables/obstacle.fixture.ts';
import { openNflog } from '../../guards/network-policy/node/nflog.ts';
import { openNftablesDataplane } from '../../guards/network-policy/dataplane/nftables/dataplane.ts';
import { namespaceObstacle } from './namespaces.fixture.ts';
import { nodeName, PolicyNode } from './policy-node.fixture.ts';
import { reaches } from './probe.fixture.ts';

const onlyFromY = {
  podSelector: { matchLabels: { pod: 'a' } },
  ingress: [
    {
      from: [{ namespaceSelector: { matchLabels: { ns: 'y' } } }],
      ports: [{ port: 80 }],
    },
  ],
};

suite('refused packets', { skip: namespaceObstacle() ?? false }, () => {
  test('give a line each, with the isolating policies and the closest rule', async () => {
    await using node = await PolicyNode.create();
    const { network } = node;
    await node.apply('x/a-from-y', onlyFromY);
    await node.apply('z/silent', { podSelector: { matchLabels: { pod: 'c' } }, policyTypes: ['Egress'] });
    const stop = await node.start();
    const [a, c] = [network.host('x/a').addresses, network.host('z/c')];
    assert.ok(await reaches(network.host('y/b'), a[4]));
    for (const [from, to, options] of [
      ['z/b', a[4], {}],
      ['y/b', a[6], { port: 81, family: 6 }],
      ['outside', a[4], { protocol: 'UDP' }],
      ['z/c', network.host('y/c').addresses[4], {}],
    ] as const) {
      assert.equal(await reaches(network.host(from), to, options), false, `${from} -> ${to}`);
    }
    await until('the lines', () => node.refusals.length >= 4);
    const shown = node.refusals.map(
      ({ direction, protocol, source, destination, policies, nearest, reason }) => [
        direction,
        protocol,
        `${source.namespace ?? ''}/${source.pod ?? source.address}`,
        `${destination.namespace ?? ''}/${destination.pod ?? ''}`,
        destination.port,
        policies,
        nearest,
        reason,
      ],
    );
    const near = { policy: 'x/a-from-y', field: 'spec.ingress[0]' };
    const isolated = 'Policy x/a-from-y isolates x/a for ingress, and none of its rules allow this.';
    assert.deepEqual(shown, [
      ...[
        [
          ...['ingress', 'TCP', 'z/b', 'x/a', 80],
          ['x/a-from-y'],
          { ...near, fits: 'port' },
          `${isolated} Closest rule: x/a-from-y spec.ingress[0] allows 80/TCP, but only from all pods in namespaces with ns=y, not from z/b.`,
        ],
        [
          ...['ingress', 'TCP', 'y/b', 'x/a', 81],
          ['x/a-from-y'],
          { ...near, fits: 'peer' },
          `${isolated} Closest rule: x/a-from-y spec.ingress[0] allows traffic from y/b, but only 80/TCP, not 81/TCP.`,
        ],
        [...['ingress', 'UDP', '/10.7.0.2', 'x/a', 80], ['x/a-from-y'], undefined, isolated],
        [
          ...['egress', 'TCP', 'z/c', 'y/c', 80],
          ['z/silent'],
          undefined,
          'Policy z/silent isolates z/c for egress, and none of its rules allow this.',
        ],
      ],
    ]);
    assert.deepEqual(
      node.refusals.map(({ source, destination }) => [source.address, destination.address]),
      [
        ['10.1.0.17', '10.1.0.10'],
        ['fd00:1::14', 'fd00:1::10'],
        ['10.7.0.2', '10.1.0.10'],
        ['10.1.0.18', '10.1.0.15'],
      ],
    );
    const line = readFinding(node.lines[0] ?? '');
    assert.ok(line);
    const { time: _time, ...head } = line.head;
    assert.deepEqual(head, {
      ...{ guard: 'network-policy', kind: 'NetworkPolicyRefusal', severity: 'low', verdict: 'refused' },
      node: { name: nodeName },
      object: { kind: 'Pod', namespace: 'x', name: 'a' },
      policy: { kind: 'NetworkPolicy', namespace: 'x', name: 'a-from-y' },
      message: 'A packet was refused, ingress of x/a (10.1.0.10): z/b (10.1.0.17) -> x/a (10.1.0.10) 80/TCP.',
    });
    assert.match(
      refusalLines.view(line)?.pretty({ colour: false, nowMs: Date.now() }) ?? '',
      /^\d\d:\d\d:\d\d\.\d{3}   refused  ingress  z\/b \(10\.1\.0\.17\) -> x\/a \(10\.1\.0\.10\) 80\/TCP +Policy x\/a-from-y isolates/,
    );

    // One event for each pod, though x/a refused three: and no name of a pod of another namespace in it.
    await until('events', async () => (await node.eventsOf('z')).length > 0);
    const ofX = await node.eventsOf('x');
    assert.deepEqual(
      ofX.map(({ regarding, reason, note }) => [regarding?.name, reason, note]),
      [['a', 'Refused', '10.1.0.17 may not connect to port 80/TCP: isolated by NetworkPolicy a-from-y']],
    );
    assert.deepEqual(
      (await node.eventsOf('z')).map(({ regarding, note }) => [regarding?.name, note]),
      [['c', 'This pod may not connect to 10.1.0.15 port 80/TCP: isolated by NetworkPolicy silent']],
    );
    await stop();
    assert.equal(await reaches(c, network.host('y/c').addresses[4]), false);
  });

  test('refusals for unknown addresses are reported as such', async () => {
    await using node = await PolicyNode.create();
    const { network } = node;
    await node.removePod('x/a');
    await node.start(
      { refusesUnknown: true, podCidrs: ['10.1.0.0/24', 'fd00:1::/64'] },
      { unknownPods: 'deny' },
    );
    assert.equal(await reaches(network.host('x/a'), network.host('y/a').addresses[4]), false);
    await until('the line', () => node.refusals.length > 0);
    const [{ source, destination, policies, reason, direction } = assert.fail()] = node.refusals;
    assert.deepEqual(
      [direction, source.pod, source.address, destination.pod, policies],
      ['egress', undefined, '10.1.0.10', 'a', []],
    );
    assert.match(reason, /^10\.1\.0\.10 belongs to no known pod/);
  });

  for (const { backend, open, obstacle } of [
    { backend: 'nftables', open: openNftablesDataplane, obstacle: undefined },
    {
      backend: 'iptables',
      open: (options: object = {}) => openIptablesDataplane({ ...options, variant: 'nft' }),
      obstacle: iptablesObstacle('nft'),
    },
  ] as const) {
    test(
      `by ${backend}: are reported from the first given NFLOG group, and go to another program by the second`,
      { skip: obstacle ?? false },
      async () => {
        await using node = await PolicyNode.create({ open });
        const { network } = node;
        const prefixes: string[] = [];
        using _other = network.node.namespace.run(() =>
          openNflog({
            group: 8,
            onPacket: ({ prefix }) => void prefixes.push(prefix),
            onLost: () => assert.fail(),
            onError: (error) => assert.fail(String(error)),
          }),
        );
        await node.apply('x/a-from-y', onlyFromY);
        await node.start({ logGroups: [7, 8] }, { logGroups: [7, 8] });
        assert.equal(await reaches(network.host('z/b'), network.host('x/a').addresses[4]), false);
        await until('the line', () => node.refusals.length > 0);
        await until('the packet of the other program', () => prefixes.length > 0);
        assert.match(prefixes[0] ?? '', /^rampart \S+ (?:in x\/a )?x\/a-from-y/);
        assert.equal(node.refusals.length, prefixes.length);
      },
    );
  }

  test('are reported also while rules of other programs are still read', async () => {
    await using node = await PolicyNode.create();
    const others = Promise.withResolvers<OtherRules>();
    using stack = new DisposableStack();
    stack.defer(() => others.resolve(noOtherRules));
    await node.apply('x/a-from-y', onlyFromY);
    await node.start({ otherRules: () => others.promise });
    const { network } = node;
    assert.equal(await reaches(network.host('z/b'), network.host('x/a').addresses[4]), false);
    await until('the line', () => node.refusals.length > 0);
  });

  test('are counted for each policy that isolates the pod, and no longer when it is gone', async () => {
    await using node = await PolicyNode.create();
    const { network } = node;
    await node.apply('x/a-from-y', onlyFromY);
    await node.apply('x/closed', { podSelector: {} });
    await node.start();
    /** They are read again when another program has changed the table. */
    const readAgain = async (): Promise<void> => {
      network.node.namespace.nft('add chain inet rampart-network-policy foreign');
      await node.untilRules((rules) => !rules.includes('chain foreign'));
    };
    const [a, b] = [network.host('x/a').addresses[4], network.host('x/b').addresses[4]];
    for (let packets = 0; packets < 3; packets++) assert.ok(!(await reaches(network.host('z/b'), a)));
    assert.ok(!(await reaches(network.host('z/b'), b)));
    const valueOf = (policy: string, what = 'packets') =>
      node.metric(`policy_refused_${what}_total{namespace="x",policy="${policy}",direction="ingress"}`);
    await readAgain();
    await until('they are read', () => valueOf('closed') === 4);
    assert.equal(valueOf('a-from-y'), 3);
    // A SYN with its options.
    assert.equal(valueOf('a-from-y', 'bytes'), 3 * 60);
    assert.equal(node.metric('refused_bytes_total{namespace="x",pod="b",direction="ingress"}'), 60);

    await node.removePolicy('x/a-from-y');
    await node.untilRules((rules) => !rules.includes('a-from-y'));
    await readAgain();
    await until('it is gone', () => valueOf('a-from-y') === undefined);
    assert.equal(valueOf('closed'), 4);
  });
});
