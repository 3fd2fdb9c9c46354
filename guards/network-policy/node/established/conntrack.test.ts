import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { suite, test } from 'node:test';

import { NetworkNamespace, namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import { Conntrack, type Flow } from './conntrack.ts';

const TCP = 6;

/** Two namespaces, one that tracks what the other sends to it. */
class Pair implements AsyncDisposable {
  readonly client = new NetworkNamespace();
  readonly server = new NetworkNamespace();
  readonly #open: (Server | Socket)[] = [];

  constructor() {
    this.server.ip(
      `link add s type veth peer name c netns ${this.client.path}`,
      'addr add 10.0.0.1/24 dev s',
      'addr add fd00::1/64 dev s nodad',
      'link set s up',
    );
    this.client.ip('addr add 10.0.0.2/24 dev c', 'addr add fd00::2/64 dev c nodad', 'link set c up');
    // Tracking begins with the first rule that asks for it.
    this.server.nft(`
      add table inet test
      add chain inet test input { type filter hook input priority 0; policy accept; }
      add rule inet test input ct state invalid drop
    `);
  }

  async listen(): Promise<void> {
    const server = createServer((socket) => void this.#open.push(socket.on('error', () => undefined)));
    const listening = once(server, 'listening');
    await this.server.runTick(() => server.listen(80));
    await listening;
    this.#open.push(server);
  }

  async connect(host: string): Promise<Socket> {
    const [socket, connected] = await this.client.runTick(() => {
      const begun = connect({ host, port: 80 });
      return [begun, once(begun, 'connect')] as const;
    });
    this.#open.push(socket);
    await connected;
    return socket;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const each of this.#open) if ('destroy' in each) each.destroy();
    for (const each of this.#open) if ('close' in each) each.close();
    this.client[Symbol.dispose]();
    this.server[Symbol.dispose]();
  }
}

function flowsTo80(conntrack: Conntrack): Flow[] {
  const all = [...conntrack.flows()].flat();
  return all.filter(({ protocol, original }) => protocol === TCP && original.destinationPort === 80);
}

suite('conntrack', { skip: namespaceObstacle() ?? false }, () => {
  test('flows of both families, from whom to whom', async () => {
    await using pair = new Pair();
    await pair.listen();
    const [four, six] = [await pair.connect('10.0.0.1'), await pair.connect('fd00::1')];
    using conntrack = pair.server.run(() => new Conntrack());
    const found = flowsTo80(conntrack).toSorted((a, b) => a.family - b.family);
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
    await using pair = new Pair();
    await pair.listen();
    const sockets = [await pair.connect('10.0.0.1'), await pair.connect('10.0.0.1')];
    using conntrack = pair.server.run(() => new Conntrack());
    const flow = flowsTo80(conntrack).find(({ original }) => original.sourcePort === sockets[0]?.localPort);
    assert.ok(flow);
    assert.equal(conntrack.delete(flow), true);
    assert.equal(conntrack.delete(flow), false);
    assert.deepEqual(
      flowsTo80(conntrack).map(({ original }) => original.sourcePort),
      [sockets[1]?.localPort],
    );
  });

  test('more than one read: each flow is told once', async () => {
    await using pair = new Pair();
    await pair.listen();
    const count = 300;
    const ports = new Set<number | undefined>();
    for (let at = 0; at < count; at++) ports.add((await pair.connect('10.0.0.1')).localPort);
    using conntrack = pair.server.run(() => new Conntrack());
    let reads = 0;
    const found = new Set<number>();
    for (const flows of conntrack.flows()) {
      reads++;
      for (const { original } of flows) found.add(original.sourcePort);
    }
    assert.ok(reads > 1);
    assert.deepEqual(
      [...ports].filter((port) => !found.has(port ?? 0)),
      [],
    );
  });

  test('one that both ends have closed is over', async () => {
    await using pair = new Pair();
    await pair.listen();
    const socket = await pair.connect('10.0.0.1');
    socket.resetAndDestroy();
    await once(socket, 'close');
    using conntrack = pair.server.run(() => new Conntrack());
    assert.deepEqual(
      flowsTo80(conntrack).map(({ isOver }) => isOver),
      [true],
    );
  });
});
