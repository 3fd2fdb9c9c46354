import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { createSocket } from 'node:dgram';
import { suite, test } from 'node:test';

import { errorCodes } from '../../../../lib/errors/errors.ts';
import { until } from '../../../../lib/testing/until.fixture.ts';
import { namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import { type Flow, seenFlow } from './flow.ts';
import { NewFlows } from './new-flows.ts';
import { TrackedPair } from './tracked-pair.fixture.ts';

const [TCP, UDP] = [6, 17];

async function sendTo(pair: TrackedPair, port: number, address = '10.0.0.1'): Promise<void> {
  const socket = await pair.client.runTick(() => {
    const made = createSocket('udp4');
    made.bind(1234);
    return made;
  });
  await new Promise<void>((resolve) => socket.send('?', port, address, () => resolve()));
  await new Promise<void>((resolve) => socket.close(() => resolve()));
}

/** Each of another connection: of other ports. */
function flood(pair: TrackedPair, count: number): void {
  const script = `for ((port = 10000; port < 10000 + ${count}; port++)); do echo > /dev/udp/10.0.0.1/$port; done 2> /dev/null`;
  pair.client.run(() => spawnSync('bash', ['-c', script]));
}

suite('new connections', { skip: namespaceObstacle() ?? false }, () => {
  test('are reported once each, of both families, and not those that a rule refuses', async () => {
    await using pair = new TrackedPair();
    await pair.listen();
    pair.server.nft(`
      add rule inet test input udp dport 8 drop
      add rule inet test input udp dport 9 reject
    `);
    const flows: Flow[] = [];
    using followed = pair.server.run(
      () =>
        new NewFlows({
          onFlow: (flow) => flows.push(flow),
          onLost: () => assert.fail('lost'),
          onError: (error) => assert.fail(String(error)),
        }),
    );
    const [four, six] = [await pair.connect('10.0.0.1'), await pair.connect('fd00::1')];
    for (const port of [8, 9, 10]) await sendTo(pair, port);
    await until('all', () => flows.length >= 3);
    assert.deepEqual(
      flows.map((flow) => [flow.protocol, seenFlow(flow)]),
      [
        [TCP, { from: '10.0.0.2', fromPort: four.localPort, to: '10.0.0.1', port: 80 }],
        [TCP, { from: 'fd00::2', fromPort: six.localPort, to: 'fd00::1', port: 80 }],
        [UDP, { from: '10.0.0.2', fromPort: 1234, to: '10.0.0.1', port: 10 }],
      ],
    );
    assert.equal(followed.isOpen, true);
    followed[Symbol.dispose]();
    assert.equal(followed.isOpen, false);
  });

  test('those that found no room are counted exactly, and following goes on', async () => {
    await using pair = new TrackedPair();
    let [flows, lost] = [0, 0];
    using _followed = pair.server.run(
      () =>
        new NewFlows({
          onFlow: () => flows++,
          onLost: (count) => (lost += count),
          onError: (error) => assert.fail(String(error)),
          receiveBytes: 8 * 1024,
        }),
    );
    // Fewer than the backlog of a veth, net.core.netdev_max_backlog: all arrive.
    const count = 900;
    // The socket is not read meanwhile.
    flood(pair, count);
    await until('all', () => flows + lost >= count);
    assert.ok(lost > 0, 'the queue had room for all');
    const before = lost;
    await sendTo(pair, 9);
    await until('one more', () => flows + lost > count);
    assert.deepEqual([flows + lost, lost], [count + 1, before]);
  });

  test('an error of a reader is reported, and following continues', async () => {
    await using pair = new TrackedPair();
    const errors: unknown[] = [];
    using _followed = pair.server.run(
      () =>
        new NewFlows({
          onFlow: ({ original }) => {
            throw new Error(`port ${original.destinationPort}`);
          },
          onLost: () => undefined,
          onError: (error) => errors.push(error),
        }),
    );
    await sendTo(pair, 9);
    await sendTo(pair, 10);
    await until('both', () => errors.length === 2);
    assert.deepEqual(errors.map(String), ['Error: port 9', 'Error: port 10']);
  });

  test('where the kernel has them switched off, that is said', async (context) => {
    await using pair = new TrackedPair();
    const path = '/proc/sys/net/netfilter/nf_conntrack_events';
    const isSwitchedOff = pair.server.run(() => {
      if (existsSync(path)) writeFileSync(path, '0');
      return existsSync(path);
    });
    if (!isSwitchedOff) return context.skip('this kernel has no switch');
    const nothing = () => undefined;
    assert.throws(
      () => pair.server.run(() => new NewFlows({ onFlow: nothing, onLost: nothing, onError: nothing })),
      {
        code: errorCodes.UNSUPPORTED,
        message: /cannot follow new connections: net\.netfilter\.nf_conntrack_events is 0\. Set it/,
      },
    );
  });
});
