/** Calls to a container runtime: gRPC over its unix socket, with Rampart's errors, and counters. */
import { errorCodes, RampartError } from '../errors/errors.ts';
import { GrpcClient } from '../grpc/client.ts';
import { GrpcError, grpcStatus } from '../grpc/status.ts';
import { codec, type Input, type MethodName, methods, type Output } from './schema.ts';

/** Timeout of a call that does not set one. The runtime is on this machine, and its lists come from its memory. */
const DEFAULT_TIMEOUT_MS = 5_000;

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Default {@link DEFAULT_TIMEOUT_MS}. */
  readonly timeoutMs?: number | undefined;
}

/** Counters of a connection since it was opened. */
export interface CallStats {
  /** Calls begun, by method. */
  readonly calls: Readonly<Record<string, number>>;
  /** Calls that failed, by method, without those that their caller aborted. */
  readonly failures: Readonly<Record<string, number>>;
}

/** One HTTP/2 session to the runtime, opened at the first call and again after it broke. */
export class CriConnection implements Disposable {
  readonly socketPath: string;
  readonly #client: GrpcClient;
  readonly #calls: Record<string, number> = {};
  readonly #failures: Record<string, number> = {};
  #disposed = false;

  constructor(socketPath: string) {
    this.socketPath = socketPath;
    this.#client = new GrpcClient(socketPath);
  }

  /**
   * Makes a call and returns its answer.
   *
   * @throws {RampartError} `RUNTIME_UNREACHABLE` without an answer in time, `UNSUPPORTED` if the runtime has no such method,
   * `NOT_FOUND`, `PRIVILEGE` if this process may not open the socket, `RUNTIME` for any other refusal, `DISPOSED`. Rejects with
   * the signal's reason when aborted.
   */
  async call<Name extends MethodName>(
    name: Name,
    input: Input<Name>,
    options: CallOptions = {},
  ): Promise<Output<Name>> {
    const { signal, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    this.#begin(name, signal);
    try {
      let answer: Output<Name> | undefined;
      // Reads the stream to its end, where the runtime sends the status of the call.
      for await (const message of this.#send(name, input, signal, timeoutMs)) answer = message;
      if (answer === undefined) throw new GrpcError(grpcStatus.INTERNAL, 'a response without a message');
      return answer;
    } catch (error) {
      throw this.#explain(name, error, signal);
    }
  }

  /** A call with a stream of answers, until the runtime or `signal` ends it. Has no timeout. Throws as {@link call}. */
  async *stream<Name extends MethodName>(
    name: Name,
    input: Input<Name>,
    signal: AbortSignal,
  ): AsyncGenerator<Output<Name>, void, void> {
    this.#begin(name, signal);
    try {
      yield* this.#send(name, input, signal, undefined);
    } catch (error) {
      throw this.#explain(name, error, signal);
    }
  }

  stats(): CallStats {
    return { calls: { ...this.#calls }, failures: { ...this.#failures } };
  }

  /** Ends the session; calls in progress fail with `DISPOSED`. */
  [Symbol.dispose](): void {
    this.#disposed = true;
    this.#client[Symbol.dispose]();
  }

  async *#send<Name extends MethodName>(
    name: Name,
    input: Input<Name>,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
  ): AsyncGenerator<Output<Name>, void, void> {
    const { service, input: inputName, output } = methods[name];
    const answers = this.#client.call(`/${service}/${name}`, codec.encode(inputName, input), {
      signal,
      timeoutMs,
    });
    for await (const answer of answers) yield codec.decode(output, answer) as Output<Name>;
  }

  #begin(name: MethodName, signal: AbortSignal | undefined): void {
    signal?.throwIfAborted();
    if (this.#disposed) throw this.#disposedError(name);
    this.#calls[name] = (this.#calls[name] ?? 0) + 1;
  }

  #explain(name: MethodName, error: unknown, signal: AbortSignal | undefined): unknown {
    if (signal?.aborted === true) return signal.reason;
    this.#failures[name] = (this.#failures[name] ?? 0) + 1;
    return this.#disposed ? this.#disposedError(name) : runtimeError(error, name, this.socketPath);
  }

  #disposedError(name: MethodName): RampartError {
    return new RampartError(errorCodes.DISPOSED, {
      what: `${name} at ${this.socketPath} after it was closed`,
    });
  }
}

function runtimeError(error: unknown, name: MethodName, socketPath: string): unknown {
  // Other errors, such as that of a message that cannot be decoded, are already Rampart's.
  if (!(error instanceof GrpcError)) return error;
  const what = `container runtime at ${socketPath}: ${name} failed`;
  const parts = { what, why: error.message, cause: error };
  if (error.status === grpcStatus.UNIMPLEMENTED) {
    return new RampartError(errorCodes.UNSUPPORTED, {
      ...parts,
      next: `${methods[name].service} with this method is required: containerd 1.6 or later, or CRI-O 1.23 or later`,
    });
  }
  if (error.status === grpcStatus.NOT_FOUND) return new RampartError(errorCodes.NOT_FOUND, parts);
  if (error.status === grpcStatus.UNAVAILABLE || error.status === grpcStatus.CANCELLED) {
    return unreachableError(error, what, socketPath);
  }
  return error.status === grpcStatus.DEADLINE_EXCEEDED
    ? new RampartError(errorCodes.RUNTIME_UNREACHABLE, {
        ...parts,
        next: 'Check the log of the runtime and the load of the machine',
      })
    : new RampartError(errorCodes.RUNTIME, { ...parts, next: 'Check the log of the runtime' });
}

function unreachableError(error: GrpcError, what: string, socketPath: string): RampartError {
  const system = systemCode(error);
  if (system === 'EACCES' || system === 'EPERM') {
    const why = `access to ${socketPath} is denied (${system})`;
    return new RampartError(errorCodes.PRIVILEGE, { what, why, next: 'Run as root', cause: error });
  }
  const why =
    system === 'ENOENT'
      ? 'the socket does not exist'
      : system === 'ECONNREFUSED'
        ? 'nothing listens there'
        : error.message;
  return new RampartError(errorCodes.RUNTIME_UNREACHABLE, {
    what,
    why,
    next: 'Check that the runtime is running and that this is its socket',
    cause: error,
  });
}

function systemCode(error: GrpcError): string | undefined {
  for (let cause: unknown = error.cause; cause instanceof Error; cause = cause.cause) {
    // Skips codes such as ERR_HTTP2_STREAM_CANCEL, whose cause has the actual reason.
    if ('code' in cause && typeof cause.code === 'string' && /^E[A-Z0-9]+$/.test(cause.code))
      return cause.code;
  }
  return undefined;
}
