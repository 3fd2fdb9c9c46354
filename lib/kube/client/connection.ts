/** Requests to one API server: credentials, the client's own rate limit, retries, errors. */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import { type Clock, sleep, systemClock } from '../../time/clock.ts';
import { TokenBucket } from '../../time/rate-limit.ts';
import type { CallScope } from './call-scope.ts';
import { errorFromAnswer, unreachable } from './client-errors.ts';
import type { ClusterAccess } from '../access/cluster-access.ts';
import type { Credential } from '../access/credentials.ts';
import { type Incoming, SendError } from './exchange.ts';
import { Transport } from './transport.ts';

export interface ConnectionOptions {
  /** Sent as `user-agent`. Default: `rampart`. */
  readonly userAgent?: string;
  /** How many requests per second this client allows itself. Default: 50. */
  readonly perSecond?: number;
  /** How many requests may be sent at once after a pause. Default: 100. */
  readonly burst?: number;
  /** How often a request is retried if the server asks to send it later. Default: 4. */
  readonly maxRetries?: number;
  /** Limit of the size of an answer, which is held in memory as a whole. Default: 256 MiB. */
  readonly maxAnswerBytes?: number;
  readonly clock?: Clock;
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** A query string of the parameters that are set. */
export function searchParams(query: Query): URLSearchParams {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) params.set(name, String(value));
  return params;
}

export interface ApiRequest {
  /** For errors: `get leases kube-system/rampart`. */
  readonly what: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** From the server's root, without the query. */
  readonly path: string;
  readonly query?: URLSearchParams | undefined;
  readonly accept?: string;
  /** Accepts a compressed answer, too: see its `content-encoding`. */
  readonly acceptsGzip?: boolean;
  readonly contentType?: string | undefined;
  readonly body?: unknown;
  /** Whether sending it twice has the same effect as sending it once. Only then is it retried when the server asks for a delay. */
  readonly idempotent: boolean;
}

/** How much of an error answer is read. */
const MAX_ERROR_BYTES = 1024 * 1024;
/**
 * How many connections are tried before a request fails, if the server has closed them, or ended their HTTP/2
 * sessions.
 */
const MAX_STALE = 3;
/** The delay if the server asks for one without saying how long. */
const DEFAULT_RETRY_AFTER_MS = 1000;

/** A connection pool with everything around it. The owner disposes it. */
export class Connection implements Disposable {
  readonly access: ClusterAccess;
  readonly clock: Clock;
  readonly #transport: Transport;
  readonly #limit: TokenBucket;
  readonly #userAgent: string;
  readonly #maxRetries: number;
  readonly #maxAnswerBytes: number;

  /** @throws {RampartError} `INPUT` for a rate limit that cannot work. */
  constructor(access: ClusterAccess, options: ConnectionOptions = {}) {
    const { perSecond = 50, burst = 100, clock = systemClock } = options;
    this.access = access;
    this.clock = clock;
    this.#transport = new Transport(access, clock);
    this.#limit = new TokenBucket({ perSecond, burst, clock });
    this.#userAgent = options.userAgent ?? 'rampart';
    this.#maxRetries = options.maxRetries ?? 4;
    this.#maxAnswerBytes = options.maxAnswerBytes ?? 256 * 1024 * 1024;
  }

  [Symbol.dispose](): void {
    this.#transport[Symbol.dispose]();
  }

  closeUnused(): void {
    this.#transport.closeUnused();
  }

  /**
   * Sends a request and reads its answer as JSON.
   *
   * @throws as {@link Connection.open}; {@link RampartError} `LIMIT` for an answer that is too long,
   *   `API_UNREACHABLE` for one that breaks off or is not JSON.
   */
  async json<T>(request: ApiRequest, scope: CallScope): Promise<T> {
    const incoming = await this.open({ accept: 'application/json', ...request }, scope);
    const body = await this.#read(request, incoming, scope);
    checkIsJson(request.what, incoming);
    try {
      return JSON.parse(body) as T;
    } catch {
      throw unreachable(request.what, 'the response is not JSON');
    }
  }

  /**
   * Sends a request; resolves when a successful answer begins. Read its body to the end, or destroy it.
   *
   * @throws {KubeError} for an answer that is an error; {@link RampartError} `API_UNREACHABLE` for none; the
   *   scope's reason when it aborts.
   */
  async open(request: ApiRequest, scope: CallScope): Promise<Incoming> {
    let [retries, stale, refreshed] = [0, 0, false];
    for (;;) {
      await this.#limit.take(scope.signal);
      const credential = await this.access.credentials.current(scope.signal);
      this.#checkSecrecy(credential);
      let incoming: Incoming;
      try {
        incoming = await this.#transport.send(this.#outgoing(request), credential, scope.signal);
      } catch (error) {
        if (!(error instanceof SendError)) throw error;
        const again = error.unprocessed || (error.stale && request.method === 'GET');
        if (again && ++stale <= MAX_STALE) continue;
        const where = this.access.socketPath ?? this.access.server.host;
        throw unreachable(request.what, `no response from ${where}: ${error.message}`, error.cause);
      }
      const { status } = incoming;
      if (status >= 200 && status < 300) return incoming;

      const body = await this.#readError(incoming, scope);
      if (status === 401 && !refreshed) {
        refreshed = true;
        this.access.credentials.invalidate(credential);
        // Retrying helps only with another credential.
        if ((await this.access.credentials.current(scope.signal)) !== credential) continue;
      }
      const retryAfterMs = retryAfter(status, incoming.headers['retry-after'], this.clock);
      if (retryAfterMs !== undefined && request.idempotent && retries < this.#maxRetries) {
        // Waiting longer than the call may take would only replace the error by a less useful one.
        if (retryAfterMs < scope.leftMs) {
          retries++;
          await sleep(this.clock, retryAfterMs, scope.signal);
          continue;
        }
      }
      const { secrets } = credential;
      throw errorFromAnswer({ what: request.what, status, body, retryAfterMs, secrets });
    }
  }

  #outgoing(request: ApiRequest) {
    const {
      method,
      path,
      query,
      accept,
      acceptsGzip = false,
      contentType = 'application/json',
      body,
    } = request;
    const search = query === undefined || query.size === 0 ? '' : `?${query.toString()}`;
    return {
      method,
      path: `${path}${search}`,
      headers: {
        'user-agent': this.#userAgent,
        ...(accept !== undefined && { accept }),
        ...(acceptsGzip && { 'accept-encoding': 'gzip' }),
        ...(body !== undefined && { 'content-type': contentType }),
        ...this.access.headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    };
  }

  async #read(request: ApiRequest, incoming: Incoming, scope: CallScope): Promise<string> {
    const chunks: Buffer[] = [];
    let sizeBytes = 0;
    try {
      for await (const chunk of incoming.body as AsyncIterable<Buffer>) {
        sizeBytes += chunk.length;
        // Leaving the loop destroys the answer, and its connection.
        if (sizeBytes > this.#maxAnswerBytes) break;
        chunks.push(chunk);
      }
    } catch (error) {
      scope.signal.throwIfAborted();
      throw unreachable(request.what, `the response was interrupted: ${(error as Error).message}`, error);
    }
    if (sizeBytes > this.#maxAnswerBytes) {
      throw new RampartError(errorCodes.LIMIT, {
        what: `cannot ${request.what}`,
        why: `the response exceeds ${this.#maxAnswerBytes} bytes`,
        next: 'Request it in pages',
      });
    }
    return Buffer.concat(chunks, sizeBytes).toString('utf8');
  }

  /** The beginning of an error answer: it does not matter if it breaks off or is too long. */
  async #readError(incoming: Incoming, scope: CallScope): Promise<string> {
    const chunks: Buffer[] = [];
    let sizeBytes = 0;
    try {
      for await (const chunk of incoming.body as AsyncIterable<Buffer>) {
        chunks.push(chunk);
        sizeBytes += chunk.length;
        if (sizeBytes > MAX_ERROR_BYTES) break;
      }
    } catch {
      scope.signal.throwIfAborted();
    }
    return Buffer.concat(chunks).toString('utf8');
  }

  /** @throws {RampartError} `INPUT` if a token would go over the network for everybody to read. */
  #checkSecrecy({ authorization }: Credential): void {
    const { server, socketPath } = this.access;
    if (authorization === undefined || server.protocol === 'https:' || socketPath !== undefined) return;
    if (/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(server.hostname)) return;
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot use ${server.protocol}//${server.host} with a token or a password`,
      why: 'they would be sent unencrypted',
      next: 'Use an https address',
    });
  }
}

/** @throws {RampartError} `API_UNREACHABLE` for an answer that is something else. */
export function checkIsJson(what: string, { headers }: Incoming): void {
  const type = headers['content-type'] ?? 'no content type';
  if (/^application\/json\b/.test(type)) return;
  throw unreachable(what, `the response is ${type}; expected application/json`);
}

/** How long the server asks to wait; undefined if it does not. */
function retryAfter(status: number, header: string | undefined, clock: Clock): number | undefined {
  if (status !== 429 && status !== 503) return undefined;
  if (header !== undefined && /^\d+$/.test(header.trim())) return Number(header) * 1000;
  const dateMs = header === undefined ? NaN : Date.parse(header);
  if (!Number.isNaN(dateMs)) return Math.max(0, dateMs - clock.wallMs());
  // A 503 without a time may last long: it is left to the caller's own backoff.
  return status === 429 ? DEFAULT_RETRY_AFTER_MS : undefined;
}
