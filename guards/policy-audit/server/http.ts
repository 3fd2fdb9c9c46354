/**
 * Serves policies by HTTPS (by HTTP without a certificate, as upstream), and the readiness probe.
 *
 *     POST /validate/ID  /audit/ID  /validate_raw/ID      GET /readiness, and beside the probe /policies
 */
import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';

import type { Address } from '../../../lib/net/address.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { ConnectionShares, sourceOf } from '../../../lib/net/connection-shares.ts';
import { FairShares, type Share } from '../../../lib/net/fair-shares.ts';
import { listen } from '../../../lib/net/listen.ts';
import { createServer } from '../../../lib/net/node-http.ts';
import { shareUnauthenticated, unauthenticatedServer } from '../../../lib/net/unauthenticated.ts';
import type { CertificateTexts } from '../../../lib/net/certificate-files.ts';
import { type PolicyStates, statesPath, statesText } from './policy-states.ts';
import { ShapeError } from './review.ts';
import type { Review, ReviewKind } from './reviewer.ts';

export interface HttpOptions {
  readonly address: Address;
  /** Undefined: serves HTTP without TLS. */
  readonly certificates: CertificateTexts | undefined;
  readonly review: Review;
  /** Why the server cannot answer reviews yet; undefined if it can. */
  readonly notLoaded: () => string | undefined;
  /** Why no reviews should be sent to the server, even if it can answer some; undefined if they should. */
  readonly notReady: () => string | undefined;
  readonly logger: Logger;
}

export interface PolicyHttpServer extends AsyncDisposable {
  /** The address that it listens on, with the selected port if 0 was requested. */
  readonly address: Address;
  /** Applies to new connections; existing ones stay. */
  useCertificates(texts: CertificateTexts): void;
  /** Closes each connection after its next response, so that its client finds another server. */
  endConnections(): void;
}

/** An object has up to 1.5 MiB in etcd; an update contains two, in JSON. */
const MAX_BODY_BYTES = 16 << 20;
/**
 * Limit of all bodies in memory, from their first byte to the answer of their review. If it is exceeded, the
 * client with the most unfinished reviews loses its oldest one. A parsed body takes several times its bytes.
 */
const MAX_BODIES_BYTES = 32 << 20;
/** Memory that a chunk takes besides its bytes: a body may arrive in chunks of one byte. */
const CHUNK_BYTES = 256;
const MAX_AT_ONCE = 1000;
/** An API server uses one connection for each review in progress. Connections without a review are closed first. */
const CONNECTIONS = { total: MAX_AT_ONCE + 200 };
/** The API server waits for a webhook for 30 s at most. */
const REQUEST_TIMEOUT_MS = 35_000;
/** How long the server waits for reviews in progress when it ends. */
const DRAIN_MS = 10_000;
const reviewKinds: ReadonlySet<string> = new Set<ReviewKind>(['audit', 'validate', 'validate_raw']);

/**
 * The caller disposes the server: reviews in progress are answered first, for up to 10 s.
 *
 * @throws {RampartError} `SYSTEM` if it cannot listen
 */
export async function servePolicies(options: HttpOptions): Promise<PolicyHttpServer> {
  const requests = new Requests(options);
  const listener = (request: IncomingMessage, response: ServerResponse): void =>
    requests.take(request, response);
  const { certificates } = options;
  const server: Server | TlsServer =
    certificates === undefined ? createServer(listener) : createTlsServer(tlsOptions(certificates), listener);
  server.requestTimeout = REQUEST_TIMEOUT_MS;
  server.headersTimeout = 10_000;
  // Longer than the API server's timeout, so that no connection is closed here just as the API server uses it.
  server.keepAliveTimeout = 100_000;
  server.on('tlsClientError', () => undefined);
  requests.connections = new ConnectionShares(server, CONNECTIONS);
  await listen(server, options.address, 'policies');
  return {
    address: addressOf(server),
    useCertificates(texts) {
      if ('setSecureContext' in server) server.setSecureContext(tlsOptions(texts));
    },
    endConnections() {
      requests.isLast = true;
    },
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close');
      server.close();
      server.closeIdleConnections();
      await requests.drained(DRAIN_MS);
      requests.abort(new Error('the policy server is shutting down'));
      server.closeAllConnections();
      await closed;
    },
  };
}

/**
 * A separate readiness probe without TLS, since the kubelet has no client certificate. Also serves the states of
 * the policies.
 *
 * @throws {RampartError} `SYSTEM`
 */
export async function serveReadiness(
  address: Address,
  { notReady, states }: Pick<HttpOptions, 'notReady'> & { readonly states: () => PolicyStates },
): Promise<AsyncDisposable & { readonly address: Address }> {
  const server = createServer(unauthenticatedServer, (request, response) => {
    request.resume();
    const asked = `${request.method} ${request.url}`;
    if (asked === 'GET /readiness') sendReadiness(response, notReady());
    else if (asked === `GET ${statesPath}`) sendText(response, 200, statesText(states()));
    else send(response, 404, { error: `only GET /readiness and GET ${statesPath} are served here` });
  });
  shareUnauthenticated(server);
  await listen(server, address, 'the readiness probe');
  return {
    address: addressOf(server),
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Reviews in progress. */
class Requests {
  readonly #options: HttpOptions;
  readonly #running = new Set<AbortController>();
  readonly #bodies = new FairShares({ total: MAX_BODIES_BYTES });
  readonly #peers = new WeakMap<Socket, Peer>();
  connections: ConnectionShares | undefined;
  /** Whether each connection ends with its next response. */
  isLast = false;
  #count = 0;
  #idle: PromiseWithResolvers<void> | undefined;

  constructor(options: HttpOptions) {
    this.#options = options;
  }

  take(request: IncomingMessage, response: ServerResponse): void {
    this.#count++;
    if (this.isLast) response.setHeader('connection', 'close');
    void this.#answer(request, response).finally(() => {
      if (--this.#count === 0) this.#idle?.resolve();
    });
  }

  /** Aborts the reviews in progress. */
  abort(reason: Error): void {
    for (const running of this.#running) running.abort(reason);
  }

  async drained(withinMs: number): Promise<void> {
    if (this.#count === 0) return;
    this.#idle = Promise.withResolvers();
    const timer = setTimeout(this.#idle.resolve, withinMs);
    await this.#idle.promise;
    clearTimeout(timer);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const path = (request.url ?? '').split('?', 1)[0] ?? '';
      if (path === '/readiness') {
        request.resume();
        if (request.method === 'GET') sendReadiness(response, this.#options.notReady());
        else send(response, 405, { error: 'use GET' });
        return;
      }
      const kindEnd = path.indexOf('/', 1);
      const kind = path.slice(1, Math.max(1, kindEnd));
      const id = decoded(path.slice(kindEnd + 1));
      if (!reviewKinds.has(kind) || id === undefined || id === '')
        refuse(request, response, 404, 'no such path');
      else if (request.method !== 'POST') refuse(request, response, 405, 'use POST');
      else if (this.#options.notLoaded() !== undefined) refuse(request, response, 503, 'not ready yet');
      else if (this.#running.size >= MAX_AT_ONCE)
        refuse(request, response, 503, `${MAX_AT_ONCE} reviews are already in progress`);
      else await this.#review(kind as ReviewKind, id, request, response);
    } catch (error) {
      // The client has closed the connection, so nothing is answered.
      if (request.destroyed && !request.complete) return;
      this.#options.logger.error({ err: error, url: request.url }, 'cannot respond to a review');
      send(response, 500, { error: 'Something went wrong' });
    }
  }

  async #review(
    kind: ReviewKind,
    id: string,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const peer = this.#peerOf(request.socket);
    const received = await readBody(request, this.#bodies, peer.source);
    if (received === 'too large')
      return refuse(request, response, 413, `a review may have at most ${MAX_BODY_BYTES} bytes`);
    if (received === 'no room')
      return refuse(
        request,
        response,
        503,
        `reviews in progress may have ${MAX_BODIES_BYTES} bytes in total`,
      );
    // The evaluation is aborted when the caller of the webhook no longer waits.
    const gone = new AbortController();
    this.#running.add(gone);
    const onClose = (): void => gone.abort(new Error('the client is gone'));
    response.once('close', onClose);
    // A connection with a review in progress is not closed to make room for another one.
    if (peer.connection !== undefined) peer.connection.isKept = true;
    try {
      const body = parsed(received.text);
      if (body === undefined) return send(response, 400, { error: 'the body is not JSON' });
      const answer = await this.#options.review(kind, id, body, gone.signal);
      if (answer === undefined)
        send(response, 404, { error: 'not found', message: `policy not found: ${id}` });
      else send(response, 200, answer);
    } catch (error) {
      if (!(error instanceof ShapeError)) throw error;
      send(response, 422, {
        error: 'Failed to deserialize the JSON body into the target type',
        message: error.message,
      });
    } finally {
      response.off('close', onClose);
      this.#running.delete(gone);
      received.share[Symbol.dispose]();
      if (peer.connection !== undefined) peer.connection.isKept = false;
    }
  }

  #peerOf(socket: Socket): Peer {
    const known = this.#peers.get(socket);
    if (known !== undefined) return known;
    const peer = { source: sourceOf(socket.remoteAddress ?? ''), connection: this.connections?.of(socket) };
    this.#peers.set(socket, peer);
    return peer;
  }
}

/** What the reviews of one connection share. */
interface Peer {
  readonly source: string;
  readonly connection: Share | undefined;
}

interface Received {
  readonly text: string;
  /** The bytes in memory that count for this request. */
  readonly share: Share;
}

type NotReceived = 'too large' | 'no room';

async function readBody(
  request: IncomingMessage,
  bodies: FairShares,
  source: string,
): Promise<Received | NotReceived> {
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) return 'too large';
  let chunks: Buffer[] = [];
  let sizeBytes = 0;
  const { promise, resolve, reject } = Promise.withResolvers<Received | NotReceived>();
  const share = bodies.open(source, () => give('no room'));
  const onData = (chunk: Buffer): void => {
    sizeBytes += chunk.length;
    if (sizeBytes > MAX_BODY_BYTES) give('too large');
    else if (share.grow(chunk.length + CHUNK_BYTES)) chunks.push(chunk);
    else give('no room');
  };
  /** Discards what has been received. */
  const give = (answer: NotReceived | Error): void => {
    chunks = [];
    share[Symbol.dispose]();
    request.off('data', onData);
    if (answer instanceof Error) reject(answer);
    else resolve(answer);
  };
  request.on('data', onData);
  request.once('end', () => {
    share.isKept = true;
    // Most bodies arrive in one chunk, which need not be copied.
    const [first] = chunks;
    const bytes = chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks);
    resolve({ text: bytes.toString(), share });
    chunks = [];
  });
  request.once('error', give);
  request.once('close', () => {
    if (!request.readableEnded) give(new Error('the request was aborted'));
  });
  return promise;
}

/** The parsed text; undefined if it is not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The last segment of a path, decoded. */
function decoded(segment: string): string | undefined {
  if (segment.includes('/')) return undefined;
  try {
    return segment.includes('%') ? decodeURIComponent(segment) : segment;
  } catch {
    return undefined;
  }
}

function sendReadiness(response: ServerResponse, why: string | undefined): void {
  if (why === undefined) response.writeHead(200).end();
  else send(response, 503, { error: 'not ready', message: why });
}

/** Responds with an error, without reading the body. */
function refuse(request: IncomingMessage, response: ServerResponse, status: number, message: string): void {
  request.resume();
  if (response.headersSent) return;
  response.setHeader('connection', 'close');
  if (status === 503) response.setHeader('retry-after', '1');
  send(response, status, { error: message });
}

function send(response: ServerResponse, status: number, body: object): void {
  if (response.destroyed || response.headersSent) return;
  sendText(response, status, JSON.stringify(body));
}

function sendText(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
  });
  response.end(text);
}

function tlsOptions({ cert, key, ca }: CertificateTexts): object {
  return { cert, key, ...(ca && { ca, requestCert: true, rejectUnauthorized: true }) };
}

function addressOf(server: Server | TlsServer): Address {
  const { address, port } = server.address() as AddressInfo;
  return { host: address, port };
}
