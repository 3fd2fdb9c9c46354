/** Receivers of OTLP for tests: real HTTP servers on loopback whose manners can be changed while they run. */
import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createSecureServer, type ServerOptions } from 'node:https';
import type { AddressInfo } from 'node:net';

import { createServer } from '../net/node-http.ts';
import { type Decoded, decodeRequest } from './decode.fixture.ts';
import { type OtlpExporter, openOtlpExporter } from './exporter.ts';
import type { OtlpExporterOptions } from './options.ts';

export interface Received extends Decoded {
  readonly headers: IncomingHttpHeaders;
  readonly path: string;
  /** The bodies of its records. */
  readonly bodies: readonly string[];
}

export type Manners = (received: Received, response: ServerResponse, request: IncomingMessage) => void;

/** As the collector answers. */
export const accept: Manners = (_received, response) => answer(response, 200, { partialSuccess: {} });
export const answerWith =
  (status: number, headers: Readonly<Record<string, string>> = {}, body: object = {}): Manners =>
  (_received, response) =>
    answer(response, status, body, headers);
export const hang: Manners = () => undefined;

function answer(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

export class OtlpReceiver implements AsyncDisposable {
  readonly #server: Server;
  /** All requests, in the order they came. */
  readonly received: Received[] = [];
  /** The bodies of records that were answered with 2xx, in order. */
  readonly taken: string[] = [];
  /** Why requests could not be read. */
  readonly faults: unknown[] = [];
  manners: Manners = accept;
  connections = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(
    options: { readonly port?: number; readonly tls?: ServerOptions } = {},
  ): Promise<OtlpReceiver> {
    const server = options.tls === undefined ? createServer() : createSecureServer(options.tls);
    const receiver = new OtlpReceiver(server);
    server.on('connection', () => receiver.connections++);
    server.on('request', (request, response) => void receiver.#serve(request, response));
    server.listen(options.port ?? 0, '127.0.0.1');
    await once(server, 'listening');
    return receiver;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): URL {
    return new URL(`http://127.0.0.1:${this.port}/v1/logs`);
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
    let decoded: Decoded;
    try {
      decoded = decodeRequest(Buffer.concat(parts).toString());
    } catch (error) {
      this.faults.push(error);
      answer(response, 400, { message: 'not a request' });
      return;
    }
    const bodies = decoded.records.map(({ body }) => body.stringValue);
    const received = { ...decoded, bodies, headers: request.headers, path: request.url ?? '' };
    this.received.push(received);
    response.once('finish', () => {
      if (response.statusCode < 300) this.taken.push(...bodies);
    });
    this.manners(received, response, request);
  }
}

/** Quick in its retries; the body of each record is the line. */
export function openQuick(
  directory: string,
  url: URL,
  options: Partial<Omit<OtlpExporterOptions, 'target'>> & {
    readonly target?: Partial<OtlpExporterOptions['target']>;
  } = {},
): OtlpExporter {
  return openOtlpExporter({
    directory,
    source: { resource: { 'service.name': 'tests' }, scope: { name: 'tests', version: '1' } },
    logRecordOf: ({ id, line, acceptedMs }) => ({
      timeNs: 0n,
      observedNs: BigInt(Math.trunc(acceptedMs)) * 1_000_000n,
      ...{ severityNumber: 9, severityText: 'info', body: line.toString() },
      attributes: { 'log.record.uid': id },
    }),
    userAgent: 'tests',
    backoff: { baseMs: 5, maxMs: 20, jitter: 0.5 },
    lingerMs: 200,
    ...options,
    target: { url, headers: {}, ...options.target },
  });
}

/** The invariants of the counts. */
export function balanced({ stats }: OtlpExporter): { readonly offers: boolean; readonly lines: boolean } {
  const sum = (counts: Readonly<Record<string, number>>): number =>
    Object.values(counts).reduce((total, count) => total + count, 0);
  return {
    offers: stats.offered === stats.queued + sum(stats.refused),
    lines: stats.recovered + stats.queued === stats.sent + sum(stats.dropped) + stats.depth,
  };
}
export const inBalance = { offers: true, lines: true };
