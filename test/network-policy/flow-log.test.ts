// Allowed connections are reported: by a line with both ends and the policy, up to the requested number per
// second; the others are counted.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { RampartProcess } from '../../apps/apiserver/rampart-process.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { readFinding } from '../../guard/stream/read-finding.ts';
import { monitorAnnotation } from '../../guards/network-policy/engine/monitor.ts';
import { flowLines } from '../../guards/network-policy/flow-line.ts';
import { openIptablesDataplane } from '../../guards/network-policy/dataplane/iptables/dataplane.ts';
import { iptablesObstacle } from '../../guards/network-policy/dataplane/iptables/obstacle.fixture.ts';
import { sendPing } from './icmp.fixture.ts';
import { namespaceObstacle } from './namespaces.fixture.ts';
import { nodeName, PolicyNode } from './policy-node.fixture.ts';
import { reaches } from './probe.fixture.ts';
import { sampled } from '../../lib/testing/depth.fixture.ts';

const onlyFromY = {
  podSelector: { matchLabels: { pod: 'a' } },
  ingress: [
    {
      from: [{ namespaceSelector: { matchLabels: { ns: 'y' } } }],
      ports: [{ port: 80 }, { port: 80, protocol: 'UDP' }],
    },
  ],
};
const onlyOutside = {
  podSelector: { matchLabels: { pod: 'c' } },
  policyTypes: ['Egress'],
  egress: [{ to: [{ ipBlock: { cidr: '10.7.0.0/16' } }, { ipBlock: { cidr: 'fd00:7::/64' } }] }],
};

const monitoring = { [monitorAnnotation]: 'true' };

const backends = [
  ['nftables', undefined, undefined],
  ['iptables', () => openIptablesDataplane({ variant: 'nft' }), iptablesObstacle('nft')],
] as const;

/** Whether a socket of the node follows new connections: netlink's table has the groups of each, NFNLGRP_CONNTRACK_NEW is the lowest bit. */
function isFollowed({ network }: PolicyNode): boolean {
  const table = network.node.namespace.run(() => readFileSync('/proc/thread-self/net/netlink', 'utf8'));
  const NETLINK_NETFILTER = '12';
  return table
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .some(
      ([, protocol, , groups = '']) => protocol === NETLINK_NETFILTER && (parseInt(groups, 16) & 1) === 1,
    );
}

suite('allowed connections', { skip: namespaceObstacle() ?? false }, () => {
  for (const [name, open, obstacle] of sampled(backends, 1)) {
    test(
      `${name}: become a line each, with both ends and the policy, and refused ones do not`,
      { skip: obstacle ?? false },
      async () => {
        await using node = await PolicyNode.create({ ...(open && { open }) });
        const { network } = node;
        const services = network.addServices(['x/a', 'x/b']);
        await node.apply('x/a-from-y', onlyFromY);
        await node.apply('z/outside', onlyOutside);
        await node.apply('y/monitored', { podSelector: { matchLabels: { pod: 'a' } } }, monitoring);
        await node.start({ flowsPerSecond: 10_000 });
        const [client, silent] = [network.host('y/b'), network.host('z/c')];
        const [a, b] = [network.host('x/a').addresses, network.host('x/b').addresses];
        const steps: readonly (readonly [string | undefined, () => unknown])[] = [
          ['ingress x/a x/a-from-y: TCP y/b -> x/a 80', () => reaches(client, a[4])],
          ['ingress x/a x/a-from-y: TCP y/b -> x/a 80', () => reaches(client, a[6], { family: 6 })],
          ['ingress x/a x/a-from-y: UDP y/b -> x/a 80', () => reaches(client, a[4], { protocol: 'UDP' })],
          [undefined, () => reaches(client, a[4], { port: 81 })],
          [undefined, () => reaches(network.host('z/b'), a[6], { family: 6 })],
          ['ingress x/a -: TCP 10.1.0.1 -> x/a 80', () => reaches(network.node, a[4])],
          [
            'egress z/c z/outside: TCP z/c -> 10.7.0.2 80',
            () => reaches(silent, network.outside.addresses[4]),
          ],
          [
            'egress z/c z/outside: UDP z/c -> fd00:7::2 80',
            () => reaches(silent, network.outside.addresses[6], { protocol: 'UDP', family: 6 }),
          ],
          [undefined, () => reaches(silent, b[4])],
          ['ingress x/b -: TCP 10.7.0.2 -> x/b 81', () => reaches(network.outside, b[4], { port: 81 })],
          ['ingress y/a -: TCP y/b -> y/a 80', () => reaches(client, network.host('y/a').addresses[4])],
          ['ingress x/b -: ICMP y/b -> x/b -', () => sendPing(client, b[4])],
          ['ingress x/b -: ICMPv6 y/b -> x/b -', () => sendPing(client, b[6])],
          [undefined, () => sendPing(client, a[4])],
          [
            'ingress x/a x/a-from-y: TCP y/b -> x/a 80 (10.96.0.1:80)',
            () => reaches(client, services.get('x/a')![4]),
          ],
          [
            'ingress x/b -: UDP y/b -> x/b 81 (fd00:96::2:81)',
            () => reaches(client, services.get('x/b')![6], { protocol: 'UDP', port: 81, family: 6 }),
          ],
        ];
        const expected: string[] = [];
        for (const [line, step] of steps) {
          const answered: unknown = await step();
          if (answered !== undefined) assert.equal(answered, line !== undefined, line);
          if (line !== undefined) expected.push(line);
        }
        await until('the lines', () => node.flows.length >= expected.length);
        const shown = node.flows.map(
          ({ direction, object, policy, protocol, source, destination, folded }) => {
            assert.equal(folded, 0);
            const nameOf = (end: typeof source) =>
              end.pod === undefined ? end.address : `${end.namespace}/${end.pod}`;
            const { translatedFrom: from } = destination;
            const through = from === undefined ? '' : ` (${from.address}:${from.port})`;
            return `${direction} ${object} ${policy ?? '-'}: ${protocol} ${nameOf(source)} -> ${nameOf(destination)} ${destination.port ?? '-'}${through}`;
          },
        );
        assert.deepEqual(shown.toSorted(), expected.toSorted());
        assert.equal(node.metric('flows_logged_total'), expected.length);
        assert.equal(node.metric('flows_not_logged_total'), 0);

        const line = readFinding(node.lines.find((one) => one.includes('10.96.0.1')) ?? '');
        assert.ok(line);
        const { time: _time, ...head } = line.head;
        const { source } = node.flows.find(
          ({ destination }) => destination.translatedFrom?.address === '10.96.0.1',
        )!;
        assert.deepEqual(head, {
          ...{ guard: 'network-policy', kind: 'NetworkFlow', severity: 'info', verdict: 'allowed' },
          node: { name: nodeName },
          object: { kind: 'Pod', namespace: 'x', name: 'a' },
          policy: { kind: 'NetworkPolicy', namespace: 'x', name: 'a-from-y' },
          message: `A connection was allowed, ingress of x/a (10.1.0.10), by NetworkPolicy x/a-from-y: y/b (${source.address}) -> x/a (10.1.0.10) 80/TCP.`,
        });
        const view = flowLines.view(line);
        assert.match(
          view?.pretty({ colour: false, nowMs: Date.now() }) ?? '',
          /^\d\d:\d\d:\d\d\.\d{3}   allowed  ingress  y\/b \(10\.1\.0\.14\) -> x\/a \(10\.1\.0\.10\) 80\/TCP +x\/a-from-y, connected to 10\.96\.0\.1:80$/,
        );
        assert.deepEqual(view?.by, { namespace: 'y', name: 'b' });
        assert.deepEqual(
          (await node.eventsOf('x')).filter(({ reason }) => reason !== 'Refused'),
          [],
        );
      },
    );
  }

  test('beyond the limit are counted, each of them', async () => {
    await using node = await PolicyNode.create();
    const { network } = node;
    await node.start({ flowsPerSecond: 10 });
    const count = 1000;
    const to = network.host('z/a').addresses[4];
    // Each to another port, so that it is another connection whichever port it comes from.
    const script = `for ((port = 10000; port < 10000 + ${count}; port++)); do echo > /dev/udp/${to}/$port; done 2> /dev/null`;
    network.host('y/b').namespace.run(() => spawnSync('bash', ['-c', script]));
    const valueOf = (what: string): number => node.metric(`flows_${what}_total`) ?? NaN;
    await until('all', () => valueOf('logged') + valueOf('not_logged') >= count);
    assert.equal(valueOf('logged') + valueOf('not_logged'), count);
    assert.equal(valueOf('lost'), 0);
    assert.ok(valueOf('logged') >= 10, String(valueOf('logged')));
    assert.equal(node.flows.length, valueOf('logged'));
    assert.ok(isFollowed(node));
  });

  test('are not logged by default', async () => {
    await using node = await PolicyNode.create();
    const { network } = node;
    await node.start();
    assert.ok(await reaches(network.host('y/b'), network.host('x/a').addresses[4]));
    assert.equal(isFollowed(node), false);
    assert.deepEqual(node.flows, []);
  });

  test('flows of an agent: rampart network flows shows them, and rampart network drops does not', async () => {
    await using node = await PolicyNode.create();
    const { network } = node;
    await node.apply('x/a-from-y', onlyFromY);
    const agent = await node.startAgent(network.node.namespace, nodeName, '--network-flow-log', '100');
    const target = network.host('x/a').addresses[4];
    await until('it refuses', async () => !(await reaches(network.host('z/b'), target)));
    await until('it has told so', async () => (await node.eventsOf('x')).length > 0);
    let hasLine = false;
    void agent.ready.then(() => (hasLine = true));
    await until('a line', async () => (await reaches(network.host('y/b'), target)) && hasLine);
    const shown = async (command: string): Promise<ReadonlySet<string | undefined>> => {
      const socket = join(node.directory, `alerts-${nodeName}.sock`);
      await using run = new RampartProcess(['network', command, '--socket', socket, '-o', 'json']);
      const { code, stdout, stderr } = await run.ended;
      assert.equal(code, 0, stderr);
      return new Set(
        stdout
          .trim()
          .split('\n')
          .map((line) => readFinding(line)?.head.kind),
      );
    };
    assert.deepEqual([...(await shown('flows'))], ['NetworkFlow']);
    assert.deepEqual([...(await shown('drops'))], ['NetworkPolicyRefusal']);
  });
});
