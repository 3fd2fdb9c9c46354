/**
 * Calls to a container runtime: gRPC over its unix socket, errors in our words, and counts.
 *
 * @module
 */
import { connect as connectSocket } from 'node:net';

import type { DescMethodStreaming, DescMethodUnary } from '@bufbuild/protobuf';
import { Code, ConnectError, type Transport } from '@connectrpc/connect';
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';

import { errorCodes, RampartError } from '../observe/errors.ts';
import { methodDescriptor } from './descriptors.ts';
import { type Input, type MethodName, methods, type Output } from './schema.ts';

/** For a call that names no time. The runtime is on this machine, and its lists come from its memory. */
export const DEFAULT_TIMEOUT_MS = 5_000;

/** Never sent anywhere: gRPC wants an authority, and a socket has none. */
const BASE_URL = 'http://localhost';
/** containerd limits its answers to 16 MiB. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Default {@link DEFAULT_TIMEOUT_MS}. */
  readonly timeoutMs?: number | undefined;
}

/** What a connection has counted since it was opened. */
export interface CallStats {
  /** Calls begun, by method. */
  readonly calls: Readonly<Record<string, number>>;
  /** Calls that failed, by method; those that were aborted by their caller are not among them. */
  readonly failures: Readonly<Record<string, number>>;
}

/** One HTTP/2 session to the runtime, opened at the first call and again after it broke. */
export class CriConnection implements Disposable {
  readonly socketPath: string;
  readonly #sessions: Http2SessionManager;
  readonly #transport: Transport;
  readonly #calls: Record<string, number> = {};
  readonly #failures: Record<string, number> = {};
  #disposed = false;

  constructor(socketPath: string) {
    this.socketPath = socketPath;
    // No pings: grpc-go ends a session that sends them more often than every five minutes.
    this.#sessions = new Http2SessionManager(BASE_URL, undefined, {
      createConnection: () => connectSocket(socketPath),
    });
    this.#transport = createGrpcTransport({
      baseUrl: BASE_URL,
      sessionManager: this.#sessions,
      acceptCompression: [],
      readMaxBytes: MAX_ANSWER_BYTES,
      binaryOptions: { readUnknownFields: false },
    });
  }

  /**
   * One call and its answer.
   *
   * @throws {RampartError} `RUNTIME_UNREACHABLE` without an answer in time or at all, `UNSUPPORTED` when the runtime has no
   * such method, `NOT_FOUND`, `PRIVILEGE` when the socket may not be opened, `RUNTIME` for any other refusal,
   * `DISPOSED`. Rejects with the signal's reason when aborted.
   */
  async call<Name extends MethodName>(
    name: Name,
    input: Input<Name>,
    options: CallOptions = {},
  ): Promise<Output<Name>> {
    const { signal, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    this.#begin(name, signal);
    try {
      const method = methodDescriptor(name) as DescMethodUnary;
      const answer = await this.#transport.unary(method, signal, timeoutMs, undefined, input);
      return answer.message as unknown as Output<Name>;
    } catch (error) {
      throw this.#explain(name, error, signal, timeoutMs);
    }
  }

  /**
   * A call that answers with a stream, until the runtime ends it or `signal` aborts it. Throws as {@link call} does, but
   * knows no timeout: nothing may happen for days.
   */
  async *stream<Name extends MethodName>(
    name: Name,
    input: Input<Name>,
    signal: AbortSignal,
  ): AsyncGenerator<Output<Name>, void, void> {
    this.#begin(name, signal);
    try {
      const method = methodDescriptor(name) as DescMethodStreaming;
      // 0 is no timeout.
      const answer = await this.#transport.stream(method, signal, 0, undefined, one(input));
      for await (const message of answer.message) yield message as unknown as Output<Name>;
    } catch (error) {
      throw this.#explain(name, error, signal, undefined);
    }
  }

  stats(): CallStats {
    return { calls: { ...this.#calls }, failures: { ...this.#failures } };
  }

  /** Ends the session; calls under way fail with `DISPOSED`. */
  [Symbol.dispose](): void {
    this.#disposed = true;
    this.#sessions.abort();
  }

  #begin(name: MethodName, signal: AbortSignal | undefined): void {
    signal?.throwIfAborted();
    if (this.#disposed) throw this.#disposedError(name);
    this.#calls[name] = (this.#calls[name] ?? 0) + 1;
  }

  #explain(
    name: MethodName,
    error: unknown,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
  ): unknown {
    if (signal?.aborted === true) return signal.reason;
    this.#failures[name] = (this.#failures[name] ?? 0) + 1;
    return this.#disposed
      ? this.#disposedError(name)
      : runtimeError(ConnectError.from(error), name, this.socketPath, timeoutMs);
  }

  #disposedError(name: MethodName): RampartError {
    return new RampartError(errorCodes.DISPOSED, {
      what: `${name} at ${this.socketPath} after it was closed`,
    });
  }
}

async function* one<T>(value: T): AsyncGenerator<T, void, void> {
  yield value;
}

function runtimeError(
  error: ConnectError,
  name: MethodName,
  socketPath: string,
  timeoutMs: number | undefined,
): RampartError {
  const what = `container runtime at ${socketPath}: ${name} failed`;
  const why = error.rawMessage;
  const parts = { what, why, cause: error };
  if (error.code === Code.Unimplemented) {
    return new RampartError(errorCodes.UNSUPPORTED, {
      ...parts,
      next: `${methods[name].service} with this method is needed: containerd 1.6 or later, or CRI-O 1.23 or later`,
    });
  }
  if (error.code === Code.NotFound) return new RampartError(errorCodes.NOT_FOUND, parts);
  if (error.code === Code.DeadlineExceeded) {
    return new RampartError(errorCodes.RUNTIME_UNREACHABLE, {
      ...parts,
      why: timeoutMs === undefined ? why : `no answer within ${timeoutMs} ms`,
      next: 'Look at the log of the runtime and at how busy the machine is',
    });
  }
  // What breaks below gRPC has the error of the socket as its cause.
  const isBroken = [Code.Unavailable, Code.Canceled, Code.Aborted].includes(error.code);
  return isBroken || systemCode(error) !== undefined
    ? unreachableError(error, what, socketPath)
    : new RampartError(errorCodes.RUNTIME, { ...parts, next: 'Look at the log of the runtime' });
}

function unreachableError(error: ConnectError, what: string, socketPath: string): RampartError {
  const system = systemCode(error);
  if (system === 'EACCES' || system === 'EPERM') {
    const why = `${socketPath} may not be opened (${system})`;
    return new RampartError(errorCodes.PRIVILEGE, { what, why, next: 'Run as root', cause: error });
  }
  const why =
    system === 'ENOENT'
      ? 'there is no such socket'
      : system === 'ECONNREFUSED'
        ? 'nobody listens there'
        : error.rawMessage;
  return new RampartError(errorCodes.RUNTIME_UNREACHABLE, {
    what,
    why,
    next: 'See that the runtime runs and that this is its socket',
    cause: error,
  });
}

function systemCode(error: ConnectError): string | undefined {
  for (let cause: unknown = error.cause; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && typeof cause.code === 'string') return cause.code;
  }
  return undefined;
}
