// Monitor mode from the API to the packet: a packet that would be refused passes, and is reported as such.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { suite, test } from 'node:test';

import { readFinding } from '../../guard/stream/read-finding.ts';
import { monitorAnnotation } from '../../guards/network-policy/engine/monitor.ts';
import { openIptablesDataplane } from '../../guards/network-policy/dataplane/iptables/dataplane.ts';
import { iptablesObstacle } from '../../guards/network-policy/dataplane/iptables/obstacle.fixture.ts';
import { openNftablesDataplane } from '../../guards/network-policy/dataplane/nftables/dataplane.ts';
import { refusalLines } from '../../guards/network-policy/refusal-line.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { dropAddress, refusedSources, sendAs, takeAddress } from './forging.fixture.ts';
import { namespaceObstacle } from './namespaces.fixture.ts';
import { podCidr } from './network.fixture.ts';
import { nodeName, PolicyNode } from './policy-node.fixture.ts';
import { reaches } from './probe.fixture.ts';
import { sampled } from '../../lib/testing/depth.fixture.ts';

const monitoring = { [monitorAnnotation]: 'true' };
const onlyFromY = {
  podSelector: { matchLabels: { pod: 'a' } },
  ingress: [{ from: [{ namespaceSelector: { matchLabels: { ns: 'y' } } }] }],
};
const backends = [
  { backend: 'nftables', open: openNftablesDataplane, skip: namespaceObstacle() },
  {
    backend: 'iptables',
    open: (options: object = {}) => openIptablesDataplane({ ...options, variant: 'nft' }),
    skip: iptablesObstacle('nft'),
  },
] as const;

for (const { backend, open, skip } of sampled(backends, 1)) {
  suite(`monitor mode, ${backend}`, { skip: skip ?? false }, () => {
    test('is set by an annotation of the policy or its Namespace, and ends when another policy is enforced', async () => {
      await using node = await PolicyNode.create({ open });
      const { network } = node;
      const passes = () => reaches(network.host('z/b'), network.host('x/a').addresses[4]);
      await node.apply('x/a-from-y', onlyFromY, monitoring);
      const stop = await node.start();
      assert.ok(await passes());
      await until('the line', () => node.refusals.length > 0);
      const line = readFinding(node.lines[0] ?? '') ?? assert.fail();
      assert.deepEqual([line.head.severity, line.head.verdict], ['low', 'would-refuse']);
      assert.match(line.head.message, /^A packet would have been refused, ingress of x\/a /);
      assert.match(
        String(line.keys['reason']),
        /none of its rules allow this\. The policy is in monitor mode, so this passes\. Closest rule: /,
      );
      assert.match(
        refusalLines.view(line)?.pretty({ colour: false, nowMs: Date.now() }) ?? '',
        /   would-refuse  ingress  z\/b /,
      );
      await until('the event', async () => (await node.eventsOf('x')).length > 0);
      assert.deepEqual(
        (await node.eventsOf('x')).map(({ type, reason, note }) => [type, reason, note]),
        [
          [
            ...['Normal', 'WouldRefuse'],
            '10.1.0.17 would be refused at port 80/TCP: isolated by NetworkPolicy a-from-y, in monitor mode',
          ],
        ],
      );

      await node.apply('x/a-from-y', onlyFromY);
      await until('it is refused', async () => !(await passes()));
      await until('that is told', () => node.refusals.some(({ verdict }) => verdict === 'refused'));
      await node.annotateNamespace('x', monitoring);
      await until('it passes', passes);
      await node.annotateNamespace('x', { [monitorAnnotation]: null });
      await until('it is refused', async () => !(await passes()));
      await node.apply('x/a-from-y', onlyFromY, monitoring);
      await until('it passes', passes);
      await node.apply('x/other', { podSelector: {} });
      await until('it is refused', async () => !(await passes()));
      await stop();
    });

    test('monitor mode of a whole node: nothing is refused or cut, neither unknown pods nor forged sources, until it is enforced', async () => {
      await using node = await PolicyNode.create({ open });
      const { network } = node;
      const host = (name: string) => network.host(name);
      await node.removePod('x/c');
      const options = { refusesUnknown: true, podCidrs: [podCidr[4], podCidr[6]] };
      const stop = await node.start(
        { ...options, mode: 'monitor', cutsEstablished: true },
        { unknownPods: 'monitor' },
      );
      const address = host('x/a').addresses[4];
      const socket = await host('z/b').namespace.runTick(() => connect({ host: address, port: 80 }));
      try {
        await once(socket, 'connect');
        await node.apply('x/a-from-y', onlyFromY);
        await node.apply('z/silent', { podSelector: { matchLabels: { pod: 'c' } }, policyTypes: ['Egress'] });
        await until('the line of a policy', async () => {
          await reaches(host('z/a'), address);
          return node.refusals.some(({ reason }) =>
            reason.includes('Node node-1 is in monitor mode, so this passes.'),
          );
        });
        const echo = once(socket, 'data');
        socket.write('!');
        await echo;
      } finally {
        socket.destroy();
      }

      assert.ok(await reaches(host('x/c'), host('y/a').addresses[6], { family: 6 }));
      await until('the line of a pod that is not known', () =>
        node.refusals.some(({ reason }) =>
          reason.endsWith(
            'no known pod, and such addresses would be refused (--network-policy-default deny).',
          ),
        ),
      );

      const forged = host('y/a').addresses[4];
      takeAddress(host('z/a'), forged);
      try {
        assert.equal(await sendAs(network, host('z/a'), forged, host('y/b')), 'arrived');
      } finally {
        dropAddress(host('z/a'), forged);
      }
      assert.ok(refusedSources(network, 'would-refuse') > 0);
      await until('the line of a forged source', () =>
        node.refusals.some(
          ({ reason }) => reason === `z/a sent this as ${forged}, which is the address of y/a.`,
        ),
      );
      assert.ok(node.refusals.every(({ verdict }) => verdict === 'would-refuse'));
      await stop();

      await node.start(options, { unknownPods: 'deny' });
      assert.deepEqual(
        [
          await reaches(host('z/b'), address),
          await reaches(host('z/c'), host('y/a').addresses[4]),
          await reaches(host('x/c'), host('y/a').addresses[6], { family: 6 }),
        ],
        [false, false, false],
      );
    });
  });
}

suite('monitor mode of an agent', { skip: namespaceObstacle() ?? false }, () => {
  test('by its option', async () => {
    await using node = await PolicyNode.create();
    const { network } = node;
    await node.apply('x/a-from-y', onlyFromY);
    const agent = await node.startAgent(network.node.namespace, nodeName, '--network-policy-mode', 'monitor');
    let line: string | undefined;
    void agent.ready.then((first) => (line = first));
    await until('a line', async () => {
      assert.ok(await reaches(network.host('z/b'), network.host('x/a').addresses[4]));
      return line !== undefined;
    });
    assert.equal(readFinding(line ?? '')?.head.verdict, 'would-refuse');
    assert.match(agent.stderr, /network policies refuse nothing on this node: --network-policy-mode monitor/);
  });
});
