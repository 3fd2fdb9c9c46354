/** Connections: the listening socket, TLS, and clients that do not send HTTP or are too slow. */
import { chmodSync, lstatSync, unlinkSync } from 'node:fs';
import type { RequestListener, Server, ServerOptions } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, isIP } from 'node:net';
import type { Duplex } from 'node:stream';

import { createServer } from '../../net/node-http.ts';
import { errorCodes, messageOf, RampartError } from '../../errors/errors.ts';
import { ApiError } from '../resources/api-error.ts';
import type { Limits, ListenAddress, TlsKeys } from './server-options.ts';

/** Whether the host is in 127.0.0.0/8, or is ::1 or `localhost`. */
export function isLoopback(host: string): boolean {
  if (isIP(host) === 4) return host.startsWith('127.');
  return host === 'localhost' || host === '::1' || host.startsWith('::ffff:127.');
}

/** A server that is not listening yet. */
export function createConnections(
  tls: TlsKeys | undefined,
  limits: Limits,
  onRequest: RequestListener,
): Server {
  const options: ServerOptions = {
    maxHeaderSize: limits.headerBytes,
    headersTimeout: Math.min(limits.headersTimeoutMs, limits.requestTimeoutMs),
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveMs,
    connectionsCheckingInterval: Math.min(5_000, limits.headersTimeoutMs, limits.requestTimeoutMs),
    // TCP keep-alive detects a client that vanished silently, even if its watch has no events.
    keepAlive: true,
    keepAliveInitialDelay: 30_000,
    noDelay: true,
    // This server itself refuses a request without a Host header, with a Status.
    requireHostHeader: false,
  };
  const server =
    tls === undefined
      ? createServer(options, onRequest)
      : createTlsServer(
          {
            ...options,
            ...tls,
            minVersion: 'TLSv1.2',
            ALPNProtocols: ['http/1.1'],
            handshakeTimeout: limits.headersTimeoutMs,
          },
          onRequest,
        );
  server.maxConnections = limits.connections;
  return server;
}

/** Answers a client whose request is not HTTP, too long or too late, and ends the connection. */
export function refuseConnection(error: Error & { readonly code?: string }, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET' || error.code === 'EPIPE') {
    socket.destroy();
    return;
  }
  const [code, text, message] = refusals[error.code ?? ''] ?? notHttp;
  const reason = code === 408 ? 'Timeout' : code === 413 ? 'RequestEntityTooLarge' : 'BadRequest';
  const body = JSON.stringify(new ApiError({ code, reason, message }).status);
  socket.end(
    `HTTP/1.1 ${code} ${text}\r\nContent-Type: application/json\r\nCache-Control: no-cache, private\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
  // Gives the client a second to read the answer, without waiting for it to close the connection.
  setTimeout(() => socket.destroy(), 1_000).unref();
}

type Refusal = readonly [code: number, text: string, message: string];
const notHttp: Refusal = [400, 'Bad Request', 'the request is not HTTP/1.1'];
const refusals: Readonly<Record<string, Refusal>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large', 'the headers of the request are too long'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, 'Payload Too Large', 'the chunk extensions are too long'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout', 'the request did not arrive in time'],
};

/**
 * Listens. A unix socket is readable and writable for its owner only, from the moment it exists.
 *
 * @returns the address, with the port that was taken.
 * @throws {RampartError} `IN_USE`, `INPUT` for an address that this machine does not have, else `SYSTEM`.
 */
export async function listen(server: Server, address: ListenAddress): Promise<ListenAddress> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  server.once('listening', resolve);
  try {
    if ('socketPath' in address) {
      await removeDeadSocket(address.socketPath);
      const before = process.umask(0o177);
      try {
        // `listen` binds the socket before it returns, so the umask applies.
        server.listen(address.socketPath);
      } finally {
        process.umask(before);
      }
    } else server.listen({ host: address.host, port: address.port });
    await promise;
  } catch (error) {
    throw listenError(address, error);
  } finally {
    server.off('error', reject);
    server.off('listening', resolve);
  }
  if ('socketPath' in address) {
    chmodSync(address.socketPath, 0o600);
    return address;
  }
  const bound = server.address() as AddressInfo;
  return { host: bound.address, port: bound.port };
}

/** Removes a socket file without a listener, which a killed process has left. */
async function removeDeadSocket(path: string): Promise<void> {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined || !stats.isSocket()) return;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const probe = connect(path);
  probe.once('connect', () => resolve(true));
  probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code !== 'ECONNREFUSED'));
  const isAlive = await promise;
  probe.destroy();
  if (!isAlive) unlinkSync(path);
}

function listenError(address: ListenAddress, error: unknown): RampartError {
  if (error instanceof RampartError) return error;
  const where = 'socketPath' in address ? address.socketPath : `${address.host}:${address.port}`;
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  const parts = {
    what: `cannot serve the API on ${where}`,
    why: messageOf(error),
    cause: error,
  };
  if (code === 'EADDRINUSE') {
    const next = 'Stop the process that uses this address, or choose another one';
    return new RampartError(errorCodes.IN_USE, { ...parts, next });
  }
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EINVAL') {
    return new RampartError(errorCodes.INPUT, { ...parts, next: 'Choose an address of this machine' });
  }
  return new RampartError(errorCodes.SYSTEM, parts);
}
