/** Two namespaces, one that tracks what the other sends to it. */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

import { NetworkNamespace } from '../../../../test/network-policy/namespaces.fixture.ts';
import type { Conntrack, TrackedFlow } from './conntrack.ts';

/** All flows of a namespace. */
export async function allFlows(conntrack: Conntrack): Promise<TrackedFlow[]> {
  const all: TrackedFlow[] = [];
  for await (const flows of conntrack.flows()) all.push(...flows);
  return all;
}

/** The client has 10.0.0.2 and fd00::2, the server 10.0.0.1 and fd00::1. */
export class TrackedPair implements AsyncDisposable {
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
      const started = connect({ host, port: 80 });
      return [started, once(started, 'connect')] as const;
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
