/** A server for tests of the client: real HTTP, and whatever misbehaviour a test wants. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { TlsOptions } from 'node:tls';

import { createServer } from '../../net/node-http.ts';
import { KubeClient } from './client.ts';
import type { ClusterAccess } from '../access/cluster-access.ts';
import type { ConnectionOptions } from './connection.ts';
import { anonymous, type Credentials } from '../access/credentials.ts';

/** A request as the server got it. */
export interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export type Answer = (received: Received, response: ServerResponse, count: number) => void;

export interface TestServer extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly received: Received[];
  /** Connections that were ever made. */
  readonly connections: () => number;
  /** For a client without credentials. */
  readonly access: ClusterAccess;
}

/** Serves `answer` on a free port of loopback. `count` is 0 for the first request. */
export async function serve(answer: Answer, tls?: TlsOptions): Promise<TestServer> {
  const received: Received[] = [];
  let connections = 0;
  const listener: RequestListener = (request, response) => {
    void text(request)
      .then((body) => {
        const { method = '', url = '', headers } = request;
        received.push({ method, url, headers, body });
        answer(received.at(-1) as Received, response, received.length - 1);
      })
      .catch(() => response.destroy());
  };
  const server = tls ? createTlsServer(tls, listener) : createServer(listener);
  server.on(tls ? 'secureConnection' : 'connection', () => connections++);
  // A client that refuses the certificate is part of the tests.
  server.on('tlsClientError', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const url = `${tls ? 'https' : 'http'}://127.0.0.1:${port}`;
  return {
    url,
    port,
    received,
    connections: () => connections,
    access: { server: new URL(url), credentials: anonymous, namespace: 'default' },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export interface Pair extends AsyncDisposable {
  readonly server: TestServer;
  readonly client: KubeClient;
}

/** A server that gives `answer`, and a client of it. */
export async function pair(
  answer: Answer,
  options: ConnectionOptions & { credentials?: Credentials } = {},
): Promise<Pair> {
  const server = await serve(answer);
  const { credentials = server.access.credentials, ...rest } = options;
  const client = new KubeClient({ ...server.access, credentials }, rest);
  return {
    server,
    client,
    async [Symbol.asyncDispose]() {
      client[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

export function json(response: ServerResponse, code: number, body: unknown, headers = {}): void {
  response.writeHead(code, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

/** A Status as the API server writes it. */
export function status(code: number, reason: string, message: string, more = {}): object {
  return { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message, ...more };
}

/** A directory that is gone after the test. */
export function temporaryDirectory(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'rampart-kube-'));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

export interface TestCertificates {
  readonly ca: string;
  readonly serverCert: string;
  readonly serverKey: string;
  readonly clientCert: string;
  readonly clientKey: string;
}

/** A certificate authority with a certificate for 127.0.0.1 and `api.test`, and one for a client called `alice`. */
export function makeCertificates(directory: string): TestCertificates {
  const file = (name: string): string => join(directory, name);
  const openssl = (...args: string[]): void =>
    void execFileSync('openssl', args, { cwd: directory, stdio: ['ignore', 'ignore', 'pipe'] });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  openssl(
    'req',
    '-x509',
    ...newKey,
    '-keyout',
    'ca.key',
    '-out',
    'ca.crt',
    '-days',
    '2',
    '-subj',
    '/CN=test CA',
  );
  writeFileSync(file('server.ext'), 'subjectAltName=IP:127.0.0.1,DNS:api.test\n');
  writeFileSync(file('client.ext'), 'extendedKeyUsage=clientAuth\n');
  for (const [name, subject] of [
    ['server', '/CN=api'],
    ['client', '/O=people/CN=alice'],
  ] as const) {
    openssl('req', ...newKey, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', subject);
    const ca = ['-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial'];
    const to = ['-out', `${name}.crt`, '-days', '2', '-extfile', `${name}.ext`];
    openssl('x509', '-req', '-in', `${name}.csr`, ...ca, ...to);
  }
  const read = (name: string): string => readFileSync(file(name), 'utf8');
  return {
    ca: read('ca.crt'),
    serverCert: read('server.crt'),
    serverKey: read('server.key'),
    clientCert: read('client.crt'),
    clientKey: read('client.key'),
  };
}
