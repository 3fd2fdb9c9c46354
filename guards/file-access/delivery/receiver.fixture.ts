/**
 * Receivers of alerts for tests: real HTTP servers on loopback whose manners can be changed while they run.
 */
import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createSecureServer, type ServerOptions } from 'node:https';
import type { AddressInfo } from 'node:net';

import { createServer } from '../../../lib/net/node-http.ts';
import { type Delivery, openDelivery } from './delivery.ts';
import type { DeliveryOptions } from './options.ts';

export interface Received {
  readonly id: string;
  readonly line: string;
  readonly headers: IncomingMessage['headers'];
  readonly path: string;
}

export type Manners = (received: Received, response: ServerResponse, request: IncomingMessage) => void;

export const accept: Manners = (_received, response) => void response.writeHead(202).end();
export const answerWith =
  (status: number, headers: Readonly<Record<string, string>> = {}): Manners =>
  (_received, response) =>
    void response.writeHead(status, headers).end();
export const hang: Manners = () => undefined;

export class Receiver implements AsyncDisposable {
  readonly #server: Server;
  /** All requests whose body arrived whole, in the order they came. */
  readonly received: Received[] = [];
  /** The lines answered with 2xx, in order; twice if they were delivered twice. */
  readonly taken: string[] = [];
  manners: Manners = accept;
  connections = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(
    options: { readonly port?: number; readonly tls?: ServerOptions } = {},
  ): Promise<Receiver> {
    const server = options.tls === undefined ? createServer() : createSecureServer(options.tls);
    const receiver = new Receiver(server);
    server.on('connection', () => receiver.connections++);
    server.on('request', (request, response) => void receiver.#serve(request, response));
    server.listen(options.port ?? 0, '127.0.0.1');
    await once(server, 'listening');
    return receiver;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  url(path = '/'): string {
    return `http://127.0.0.1:${this.port}${path}`;
  }

  /** Ids in the order of their first delivery. */
  get firsts(): string[] {
    return [...new Set(this.taken)];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    try {
      for await (const part of request) parts.push(part as Buffer);
    } catch {
      return;
    }
    const received: Received = {
      id: String(request.headers['x-rampart-alert-id']),
      line: Buffer.concat(parts).toString(),
      headers: request.headers,
      path: request.url ?? '',
    };
    this.received.push(received);
    response.once('finish', () => {
      if (response.statusCode < 300) this.taken.push(received.id);
    });
    this.manners(received, response, request);
  }
}

/** A port without a listener. */
export async function closedPort(): Promise<number> {
  await using receiver = await Receiver.start();
  return receiver.port;
}

/** Quick in its retries, and allowed to call this machine. */
export function quickOptions(directory: string, options: Partial<DeliveryOptions> = {}): DeliveryOptions {
  return {
    directory,
    allow: ['127.0.0.1'],
    backoff: { baseMs: 5, maxMs: 20, jitter: 0.5 },
    lingerMs: 200,
    ...options,
  };
}

export function openQuick(directory: string, options: Partial<DeliveryOptions> = {}): Delivery {
  return openDelivery(quickOptions(directory, options));
}

/** The invariants of the counts. */
export function balanced({ stats }: Delivery): { readonly offers: boolean; readonly alerts: boolean } {
  const sum = (counts: Readonly<Record<string, number>>): number =>
    Object.values(counts).reduce((total, count) => total + count, 0);
  return {
    offers: stats.offered === stats.accepted + sum(stats.refused),
    alerts: stats.recovered + stats.accepted === stats.delivered + sum(stats.dropped) + stats.depth,
  };
}
export const inBalance = { offers: true, alerts: true };

/** A line of about 1 kB. */
export function lineOf(id: string): string {
  return JSON.stringify({ id, padding: 'x'.repeat(980) });
}
