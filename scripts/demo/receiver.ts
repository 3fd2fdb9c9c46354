/** A receiver of callbacks, as a user would write one. */
import { once } from 'node:events';
import type { IncomingHttpHeaders, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

import { createServer } from '../../lib/net/node-http.ts';
import { Inbox } from './inbox.ts';

/** A request that was answered with 204. */
export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Listens on a free port of loopback until it is disposed. */
export class Receiver implements AsyncDisposable {
  /** In the order in which they came. */
  readonly requests = new Inbox<Received>();
  readonly #server: Server;
  #count = 0;

  private constructor() {
    this.#server = createServer((request, response) => {
      void text(request).then(
        (body) => {
          const { method = '', url: path = '', headers } = request;
          this.#count++;
          this.requests.push({ method, path, headers, body });
          response.writeHead(204).end();
        },
        // The sender went away; it sends again.
        () => response.destroy(),
      );
    });
  }

  static async listen(): Promise<Receiver> {
    const receiver = new Receiver();
    receiver.#server.listen(0, '127.0.0.1');
    await once(receiver.#server, 'listening');
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/alerts`;
  }

  /** How many requests have come. */
  get count(): number {
    return this.#count;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
    this.requests.close(new Error('the receiver is closed'));
  }
}
