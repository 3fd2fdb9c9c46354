/** A server of gRPC on a unix socket. Only what a plugin of kubelet needs: one message in, one back, no compression. */
import { once } from 'node:events';
import {
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';

import { messageOf } from '../errors/errors.ts';
import { framed, messagesOf } from './frames.ts';
import { GrpcError, grpcStatus } from './status.ts';

/** Limit of a message: the default of grpc-go. */
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * Answers a method. An error that it throws fails the call: a {@link GrpcError} with its status, any other as
 * `INTERNAL`.
 */
export type GrpcMethod = (message: Buffer) => Uint8Array;

/**
 * Serves methods, by their paths (`/package.Service/Method`), until it is disposed.
 *
 * @example
 * using server = new GrpcServer({ '/csi.v1.Identity/Probe': () => new Uint8Array() });
 * await server.listen('/run/plugin.sock');
 */
export class GrpcServer implements Disposable {
  readonly #methods: ReadonlyMap<string, GrpcMethod>;
  readonly #server: Http2Server = createServer();
  readonly #sessions = new Set<ServerHttp2Session>();

  constructor(methods: Readonly<Record<string, GrpcMethod>>) {
    this.#methods = new Map(Object.entries(methods));
    // Accepting a client may fail for lack of descriptors: it gets no answer, but the process must not end.
    this.#server.on('error', () => undefined);
    this.#server.on('session', (session) => {
      this.#sessions.add(session);
      session.on('close', () => this.#sessions.delete(session));
      // The client has gone, and its calls with it.
      session.on('error', () => undefined);
    });
    this.#server.on('stream', (stream, headers) => void this.#serve(stream, headers));
  }

  /**
   * The path is resolved before it returns, in the mount namespace of the calling thread. Disposing the server does not remove the
   * socket file: by then it may belong to another server.
   *
   * @throws {Error} of the file system: EADDRINUSE for a path that exists.
   */
  async listen(socketPath: string): Promise<void> {
    this.#server.listen(socketPath);
    await once(this.#server, 'listening');
  }

  /** Calls under way end without an answer. */
  [Symbol.dispose](): void {
    this.#server.close();
    for (const session of this.#sessions) session.destroy();
  }

  async #serve(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): Promise<void> {
    // A stream that the client has ended needs no answer.
    stream.on('error', () => undefined);
    try {
      const method = this.#methods.get(String(headers[':path']));
      if (method === undefined)
        throw new GrpcError(grpcStatus.UNIMPLEMENTED, `unknown method ${headers[':path'] ?? ''}`);
      let request: Buffer | undefined;
      for await (const message of messagesOf(stream, MAX_BYTES)) request ??= message;
      if (request === undefined) throw new GrpcError(grpcStatus.INTERNAL, 'a request without a message');
      const answer = framed(method(request));
      if (stream.destroyed) return;
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
      stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': String(grpcStatus.OK) }));
      stream.end(answer);
    } catch (error) {
      if (stream.destroyed || stream.headersSent) return;
      const status = error instanceof GrpcError ? error.status : grpcStatus.INTERNAL;
      stream.respond(
        {
          ':status': 200,
          'content-type': 'application/grpc',
          'grpc-status': String(status),
          'grpc-message': encodeURIComponent(messageOf(error)),
        },
        { endStream: true },
      );
    }
  }
}
