/** TLS and plain HTTP on one port. */
import type { RequestListener, Server } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';

import type { CertificateTexts } from './certificate-files.ts';

/** The type of a TLS record that begins a handshake (RFC 8446, 5.1). No method of HTTP begins with this byte. */
const HANDSHAKE = 0x16;

const HANDSHAKE_MS = 10_000;

export interface TlsBesidePlain {
  /** Uses these from now on, for new connections. */
  useCertificates(texts: CertificateTexts): void;
  /** Ends the TLS connections: `closeAllConnections` of the plain server does not know them. */
  close(): void;
}

/**
 * From now on the server accepts TLS connections as well, recognised by their first byte; `listener` answers
 * them. With authorities for clients, the handshake fails for clients without a certificate from one of them.
 *
 * @param server - Before it listens; its time limits for sockets apply to both.
 */
export async function takeTls(
  server: Server,
  certificates: CertificateTexts,
  listener: RequestListener,
): Promise<TlsBesidePlain> {
  const { createServer } = await import('node:https');
  const optionsOf = (texts: CertificateTexts): CertificateTexts & { readonly requestCert?: boolean } => ({
    ...texts,
    ...(texts.ca !== undefined && { requestCert: true }),
  });
  const tls: TlsServer = createServer(
    { ...optionsOf(certificates), handshakeTimeout: HANDSHAKE_MS },
    listener,
  );
  tls.timeout = server.timeout;
  // Ignored: a client that does not finish its handshake, or has no certificate.
  tls.on('tlsClientError', () => undefined);
  const sockets = new Set<Socket>();
  // The first listener is node:http's own; others, which count connections, stay.
  const [takePlain] = server.listeners('connection') as ((socket: Socket) => void)[];
  if (takePlain !== undefined) server.removeListener('connection', takePlain);
  server.on('connection', (socket: Socket) => {
    const failed = (): void => void socket.destroy();
    socket.setTimeout(server.timeout, failed);
    socket.on('error', failed);
    socket.once('data', (first: Buffer) => {
      socket.pause();
      socket.removeListener('timeout', failed);
      socket.unshift(first);
      if (first[0] === HANDSHAKE) {
        sockets.add(socket);
        socket.once('close', () => sockets.delete(socket));
        tls.emit('connection', socket);
      } else takePlain?.call(server, socket);
      process.nextTick(() => socket.resume());
    });
  });
  return {
    useCertificates: (texts) => tls.setSecureContext(optionsOf(texts)),
    close() {
      for (const socket of sockets) socket.destroy();
    },
  };
}
