/**
 * A receiver of callbacks, for tests: it answers as it is told and keeps all that came.
 *
 * @module
 */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import { until } from '../guarded-lab.fixture.ts';

export interface Post {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** What it was answered with. */
  readonly status: number;
}

/** Disposing it ends it at once, whatever is under way. */
export class Receiver implements AsyncDisposable {
  /** In the order in which they were answered. */
  readonly posts: Post[] = [];
  /** The statuses of the next answers; then 202, as Koney's forwarder answers. */
  readonly answers: number[] = [];
  /** Answers wait for it. */
  held: Promise<void> = Promise.resolve();
  /** Requests that came, answered or not. */
  requests = 0;
  #port = 0;
  #server: Server | undefined;

  static async start(): Promise<Receiver> {
    const receiver = new Receiver();
    await receiver.up();
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/handlers/kive?token=of-the-receiver`;
  }

  /** Listens, again at the same port. */
  async up(): Promise<void> {
    const server = createServer((request, response) => {
      this.requests++;
      const { method = '', url = '', headers } = request;
      let body = '';
      request.setEncoding('utf8').on('data', (part: string) => (body += part));
      request.on('end', () => {
        void this.held.then(() => {
          const status = this.answers.shift() ?? 202;
          this.posts.push({ method, url, headers, body, status });
          response.writeHead(status).end();
        });
      });
    });
    this.#server = server.listen(this.#port, '127.0.0.1');
    await once(server, 'listening');
    this.#port = (server.address() as AddressInfo).port;
  }

  /** From now on nobody listens. */
  async down(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  }

  /** Bodies of what was taken, each id once. */
  taken(): string[] {
    const byId = new Map<string, string>();
    for (const { headers, body, status } of this.posts) {
      const id = String(headers['x-rampart-alert-id']);
      if (status === 202 && !byId.has(id)) byId.set(id, body);
    }
    return [...byId.values()];
  }

  async untilTaken(count: number, patienceMs?: number): Promise<string[]> {
    return await until(
      `${count} alerts at the receiver`,
      () => this.taken().length >= count && this.taken(),
      patienceMs,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.down();
  }
}
