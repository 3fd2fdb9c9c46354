/** A TCP proxy between a fleet and the API: it counts bytes, and takes the API away from all clients at once. */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

export class CountingProxy implements AsyncDisposable {
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;
  #port = 0;
  #bytes = 0;

  get port(): number {
    return this.#port;
  }

  /** In both directions, on the wire, so encrypted. */
  get bytes(): number {
    return this.#bytes;
  }

  /** On the same port each time. */
  async open(upstream: { readonly host: string; readonly port: number }): Promise<void> {
    const server = createServer((client) => this.#forward(client, connect(upstream)));
    server.listen({ host: '127.0.0.1', port: this.#port, backlog: 4096 });
    await once(server, 'listening');
    this.#port = (server.address() as { readonly port: number }).port;
    this.#server = server;
  }

  /** Connections are reset, and new ones refused. */
  async close(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    const closed = once(server, 'close');
    server.close();
    for (const socket of this.#sockets) socket.resetAndDestroy();
    await closed;
  }

  #forward(client: Socket, upstream: Socket): void {
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.#sockets.add(from);
      from.setNoDelay(true);
      from.on('data', (chunk: Buffer) => (this.#bytes += chunk.length));
      from.on('error', () => to.destroy());
      from.on('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
