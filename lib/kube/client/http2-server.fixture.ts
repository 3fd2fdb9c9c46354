/** An API server that speaks HTTP/2, as far as tests of the client need one. */
import {
  createSecureServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';

import { temporaryDirectory, makeCertificates } from './api-server.fixture.ts';
import { anonymous } from '../access/credentials.ts';
import type { ClusterAccess } from '../access/cluster-access.ts';

using directory = temporaryDirectory();
export const certificates = makeCertificates(directory.path);

/** A test's own answer instead of the fixture's; returns true if it has answered. */
type Answer = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, count: number) => boolean | void;

export interface Http2Server extends AsyncDisposable {
  readonly access: ClusterAccess;
  readonly port: number;
  /** All that were ever made. */
  readonly sessions: ServerHttp2Session[];
  /** By the session they came on: `GET /api/v1/nodes/n`. */
  readonly requests: { readonly session: number; readonly request: string }[];
  /** Watches that are open. */
  readonly watches: Set<ServerHttp2Stream>;
  /** RST_STREAM codes of streams that ended. */
  readonly codes: number[];
}

/** Answers watches with a head, all else with an object that has the name of the client's certificate, if any. */
export async function serveHttp2({
  answer = () => false,
  maxStreams = 100,
}: { readonly answer?: Answer; readonly maxStreams?: number } = {}): Promise<Http2Server> {
  const { serverKey: key, serverCert: cert, ca } = certificates;
  const server = createSecureServer({
    ...{ key, cert, ca, requestCert: true, rejectUnauthorized: false },
    settings: { maxConcurrentStreams: maxStreams },
  });
  const sockets = new Set<Socket>();
  const sessions: ServerHttp2Session[] = [];
  const requests: Http2Server['requests'] = [];
  const watches = new Set<ServerHttp2Stream>();
  const codes: number[] = [];
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
  });
  server.on('session', (session) => {
    sessions.push(session);
    session.on('error', () => undefined);
  });
  server.on('sessionError', () => undefined);
  server.on('stream', (stream, headers) => {
    const session = stream.session as ServerHttp2Session;
    const { subject } = (session.socket as TLSSocket).getPeerCertificate();
    requests.push({
      session: sessions.indexOf(session),
      request: `${headers[':method']} ${headers[':path']}`,
    });
    stream.on('error', () => undefined);
    stream.on('close', () => {
      codes.push(stream.rstCode);
      watches.delete(stream);
    });
    stream.resume();
    if (answer(stream, headers, requests.length - 1)) return;
    stream.respond({ ':status': 200, 'content-type': 'application/json' });
    if (headers[':path']?.includes('watch=true')) watches.add(stream);
    else
      stream.end(JSON.stringify({ metadata: { name: (subject as { CN?: string } | undefined)?.CN ?? 'n' } }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    sessions,
    requests,
    watches,
    codes,
    access: accessTo(port),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Cuts an answer off. The `close` of Node.js ends it in order before. */
export function reset(stream: ServerHttp2Stream, code: number): void {
  const handle = Object.getOwnPropertySymbols(stream).find(({ description }) => description === 'kHandle');
  const handles = stream as unknown as Record<symbol, { rstStream: (code: number) => void }>;
  handles[handle as symbol]?.rstStream(code);
}

export function accessTo(port: number): ClusterAccess {
  const server = new URL(`https://127.0.0.1:${port}`);
  return { server, ca: certificates.ca, credentials: anonymous, namespace: 'default' };
}

/**
 * A proxy in front of a server: passes bytes on until it is told to hold them back.
 *
 * @param silentFirst - Number of connections, the first ones, on which no byte is passed on.
 */
export async function silenceable(
  target: number,
  silentFirst = 0,
): Promise<
  AsyncDisposable & {
    readonly port: number;
    readonly silence: () => void;
    readonly connections: () => number;
  }
> {
  const sockets: Socket[] = [];
  const server = createServer((inner) => {
    const outer = connect(target, '127.0.0.1');
    inner.on('data', (chunk) => outer.write(chunk));
    outer.on('data', (chunk) => inner.write(chunk));
    for (const socket of [inner, outer]) {
      sockets.push(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => [inner, outer].forEach((each) => each.destroy()));
      if (sockets.length <= 2 * silentFirst) socket.pause();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    silence: () => sockets.forEach((socket) => socket.pause()),
    connections: () => sockets.length / 2,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
