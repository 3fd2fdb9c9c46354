/**
 * A client of gRPC over a unix socket. Only what a client of a container runtime needs: one message out, one or many back, no
 * compression.
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
} from 'node:http2';
import { connect as connectSocket } from 'node:net';

import { messageOf } from '../errors/errors.ts';
import { framed, messagesOf } from './frames.ts';
import { GrpcError, grpcStatus } from './status.ts';

interface GrpcCallOptions {
  readonly signal: AbortSignal | undefined;
  /** Limit for the whole call. Undefined: no limit. */
  readonly timeoutMs: number | undefined;
}

/** Limit of an answer. containerd limits its own to 16 MiB. */
const MAX_BYTES = 64 * 1024 * 1024;

/** One HTTP/2 session, opened by the first call; if it ends, the next call opens a new one. */
export class GrpcClient implements Disposable {
  readonly #socketPath: string;
  #session: ClientHttp2Session | undefined;

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  /**
   * Sends `message` to the method (`/package.Service/Method`) and yields the messages of the answer until it ends.
   *
   * @throws {GrpcError} when it fails or is aborted.
   */
  async *call(
    method: string,
    message: Buffer,
    { signal, timeoutMs }: GrpcCallOptions,
  ): AsyncGenerator<Buffer, void, void> {
    const stream = this.#request(method, message, timeoutMs);
    const answer = { headers: {} as IncomingHttpHeaders, trailers: {} as IncomingHttpHeaders };
    stream.on('response', (headers) => (answer.headers = headers));
    stream.on('trailers', (trailers) => (answer.trailers = trailers));
    // The iterator below gets the error; this handler is for the time when nothing iterates.
    stream.on('error', () => undefined);
    const abort = (): void => {
      stream.destroy(new GrpcError(grpcStatus.CANCELLED, 'aborted'));
    };
    signal?.addEventListener('abort', abort);
    if (signal?.aborted === true) abort();
    const expire = (): void => {
      stream.destroy(new GrpcError(grpcStatus.DEADLINE_EXCEEDED, `no response within ${timeoutMs} ms`));
    };
    const timer = timeoutMs === undefined ? undefined : setTimeout(expire, timeoutMs);
    try {
      yield* messagesOf(stream, MAX_BYTES);
      checkStatus(answer.headers, answer.trailers);
    } catch (error) {
      throw error instanceof GrpcError
        ? error
        : new GrpcError(grpcStatus.UNAVAILABLE, messageOf(error), error);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
      if (!stream.closed) stream.close(constants.NGHTTP2_CANCEL);
    }
  }

  /** Ends the session; calls under way fail with `UNAVAILABLE`. */
  [Symbol.dispose](): void {
    this.#session?.destroy();
  }

  #request(method: string, message: Buffer, timeoutMs: number | undefined): ClientHttp2Stream {
    const stream = this.#connected().request({
      ':method': 'POST',
      ':path': method,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...(timeoutMs === undefined ? {} : { 'grpc-timeout': `${Math.max(1, Math.ceil(timeoutMs))}m` }),
    });
    stream.end(framed(message));
    return stream;
  }

  #connected(): ClientHttp2Session {
    const open = this.#session;
    if (open !== undefined && !open.closed && !open.destroyed) return open;
    // The authority is never looked up: a socket has no name. No pings: grpc-go ends a session that sends them more often
    // than every five minutes.
    const session = connect('http://localhost', { createConnection: () => connectSocket(this.#socketPath) });
    const forget = (): void => {
      if (this.#session === session) this.#session = undefined;
    };
    session.on('error', forget);
    session.on('close', forget);
    session.on('goaway', () => {
      // Pending calls are still answered, but the next one needs a new session.
      forget();
      session.close();
    });
    this.#session = session;
    return session;
  }
}

/** For HTTP errors of a server that does not speak gRPC: doc/http-grpc-status-mapping.md. */
const statusOfHttp: Readonly<Record<number, number>> = {
  403: grpcStatus.PERMISSION_DENIED,
  404: grpcStatus.UNIMPLEMENTED,
  429: grpcStatus.UNAVAILABLE,
  502: grpcStatus.UNAVAILABLE,
  503: grpcStatus.UNAVAILABLE,
  504: grpcStatus.UNAVAILABLE,
};

function checkStatus(headers: IncomingHttpHeaders, trailers: IncomingHttpHeaders): void {
  // An answer without messages may have its status in the headers, and no trailers.
  const last = trailers['grpc-status'] === undefined ? headers : trailers;
  const status = last['grpc-status'];
  if (status !== undefined) {
    if (Number(status) === grpcStatus.OK) return;
    throw new GrpcError(Number(status), percentDecoded(String(last['grpc-message'] ?? '')));
  }
  const http = headers[':status'] as number | undefined;
  if (http === undefined)
    throw new GrpcError(grpcStatus.UNAVAILABLE, 'the connection was lost before the response');
  if (http === 200) throw new GrpcError(grpcStatus.UNAVAILABLE, 'the response was interrupted');
  throw new GrpcError(statusOfHttp[http] ?? grpcStatus.UNKNOWN, `HTTP status ${http} instead of a response`);
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
