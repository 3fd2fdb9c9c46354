import assert from 'node:assert/strict';
import { once } from 'node:events';
import { suite, test } from 'node:test';

import { NetworkNamespace, namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import { Conntrack, type TrackedFlow } from './conntrack.ts';
import { allFlows, TrackedPair } from './tracked-pair.fixture.ts';

const TCP = 6;

async function flowsTo80(conntrack: Conntrack): Promise<TrackedFlow[]> {
  const all = await allFlows(conntrack);
  return all.filter(({ protocol, original }) => protocol === TCP && original.destinationPort === 80);
}

suite('conntrack', { skip: namespaceObstacle() ?? false }, () => {
  test('flows of both families, from whom to whom', async () => {
    await using pair = new TrackedPair();
    await pair.listen();
    const [four, six] = [await pair.connect('10.0.0.1'), await pair.connect('fd00::1')];
    using conntrack = pair.server.run(() => new Conntrack());
    const found = (await flowsTo80(conntrack)).toSorted((a, b) => a.family - b.family);
    const ends = [
      [four.localPort ?? 0, 0x0a000002n, 0x0a000001n],
      [six.localPort ?? 0, (0xfd00n << 112n) | 2n, (0xfd00n << 112n) | 1n],
    ] as const;
    assert.deepEqual(
      found.map(({ handle: _handle, ...flow }) => flow),
      ends.map(([port, client, server], at) => ({
        family: at === 0 ? 4 : 6,
        protocol: TCP,
        original: { source: client, destination: server, sourcePort: port, destinationPort: 80 },
        reply: { source: server, destination: client, sourcePort: 80, destinationPort: port },
        isExpected: false,
        isOver: false,
      })),
    );
  });

  test('one of two is forgotten, once', async () => {
    await using pair = new TrackedPair();
    await pair.listen();
    const sockets = [await pair.connect('10.0.0.1'), await pair.connect('10.0.0.1')];
    using conntrack = pair.server.run(() => new Conntrack());
    const flow = (await flowsTo80(conntrack)).find(
      ({ original }) => original.sourcePort === sockets[0]?.localPort,
    );
    assert.ok(flow);
    assert.equal(conntrack.delete(flow), true);
    assert.equal(conntrack.delete(flow), false);
    assert.deepEqual(
      (await flowsTo80(conntrack)).map(({ original }) => original.sourcePort),
      [sockets[1]?.localPort],
    );
  });

  test('more than one read: each flow is reported once', async () => {
    await using pair = new TrackedPair();
    await pair.listen();
    const count = 300;
    const ports = new Set<number | undefined>();
    for (let at = 0; at < count; at++) ports.add((await pair.connect('10.0.0.1')).localPort);
    using conntrack = pair.server.run(() => new Conntrack());
    let reads = 0;
    const found = new Set<number>();
    for await (const flows of conntrack.flows()) {
      reads++;
      for (const { original } of flows) found.add(original.sourcePort);
    }
    assert.ok(reads > 1);
    assert.deepEqual(
      [...ports].filter((port) => !found.has(port ?? 0)),
      [],
    );
  });

  test('are read beside the loop, which the kernel would hold up', async () => {
    using namespace = new NetworkNamespace();
    using conntrack = namespace.run(() => new Conntrack());
    let isRead = false;
    const reading = allFlows(conntrack).then((flows) => {
      isRead = true;
      return flows;
    });
    // By then, everything that needs no turn of the loop is done.
    for (let at = 0; at < 1000; at++) await Promise.resolve();
    assert.equal(isRead, false);
    assert.deepEqual(await reading, []);
  });

  test('one that both ends have closed is over', async () => {
    await using pair = new TrackedPair();
    await pair.listen();
    const socket = await pair.connect('10.0.0.1');
    socket.resetAndDestroy();
    await once(socket, 'close');
    using conntrack = pair.server.run(() => new Conntrack());
    assert.deepEqual(
      (await flowsTo80(conntrack)).map(({ isOver }) => isOver),
      [true],
    );
  });
});
