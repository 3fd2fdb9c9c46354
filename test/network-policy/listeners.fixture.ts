/** The listeners in a test's networks: over TCP and UDP, IPv4 and IPv6, at ports 80 and 81. */
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';

import type { Family } from '../../guards/network-policy/engine/rules.ts';
import type { NetworkNamespace } from './namespaces.fixture.ts';

const ports = [80, 81] as const;

/** A host that sends and answers. */
export interface Host {
  readonly name: string;
  readonly namespace: NetworkNamespace;
  readonly addresses: Readonly<Record<Family, string>>;
}

export class Listeners implements Disposable {
  readonly #open: (Server | UdpSocket)[] = [];
  /** By destination: open connections, which may not have been ended. */
  readonly #sockets = new Map<string, Set<Socket>>();
  readonly #udp = new Map<string, UdpSocket>();

  /** An echo over TCP; over UDP each datagram comes back. */
  async serve({ name, namespace, addresses }: Host): Promise<void> {
    const sockets = new Set<Socket>();
    this.#sockets.set(name, sockets);
    for (const port of ports) {
      const tcp = createServer((socket) => {
        sockets.add(socket.on('close', () => sockets.delete(socket)));
        socket.on('error', () => {}).pipe(socket);
      });
      this.#open.push(tcp);
      const listening = once(tcp, 'listening');
      await namespace.runTick(() => tcp.listen(port));
      await listening;
      for (const family of [4, 6] as const) {
        const udp = createSocket(`udp${family}`);
        this.#open.push(udp);
        this.#udp.set(`${name} ${port} ${family}`, udp);
        udp.on('message', (data, { port: to, address }) => udp.send(data, to, address, () => {}));
        const bound = once(udp, 'listening');
        await namespace.runTick(() => udp.bind({ port, address: addresses[family] }));
        await bound;
      }
    }
  }

  /** Calls `seen` for each datagram that comes to it at port 80, until what is returned is disposed. */
  watchUdp(name: string, seen: (from: string) => void, family: Family = 4): Disposable {
    const socket = this.#udp.get(`${name} 80 ${family}`);
    const listener = (_: unknown, { address }: { readonly address: string }): void => seen(address);
    socket?.on('message', listener);
    return { [Symbol.dispose]: () => socket?.off('message', listener) };
  }

  /** Connections over TCP that others have with it, as it knows them. */
  connectionsOf(name: string): number {
    return this.#sockets.get(name)?.size ?? 0;
  }

  [Symbol.dispose](): void {
    for (const each of this.#open) each.close();
    for (const sockets of this.#sockets.values()) for (const socket of sockets) socket.destroy();
  }
}
