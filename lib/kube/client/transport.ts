/** HTTP exchanges with the API server over persistent connections, with HTTP/2 if the server supports it. */
import type { Agent, IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';
import { createSecureContext, type TLSSocket } from 'node:tls';

import { errorCodes, messageOf, RampartError } from '../../errors/errors.ts';
import { Agent as HttpAgent, request as httpRequest } from '../../net/node-http.ts';
import { proxyEnvOf } from '../../net/proxy.ts';
import type { ClusterAccess } from '../access/cluster-access.ts';
import type { Credential } from '../access/credentials.ts';
import type { Clock } from '../../time/clock.ts';
import { asError, IDLE_CONNECTION_MS, type Incoming, type Outgoing, SendError } from './exchange.ts';
import { Http2Sessions } from './http2-sessions.ts';

/** Dead peers are found by TCP this long after the last byte, plus some 10 s of probes (libuv sets those). */
const KEEP_ALIVE_PROBE_MS = 15_000;
/** As many connections as an audit uses at once: with fewer, they would be closed and opened all the time. */
const MAX_IDLE_CONNECTIONS = 64;

const agentOptions = {
  keepAlive: true,
  keepAliveMsecs: KEEP_ALIVE_PROBE_MS,
  maxFreeSockets: MAX_IDLE_CONNECTIONS,
  timeout: IDLE_CONNECTION_MS,
} as const;

/** The connections for one client certificate. */
interface Pool {
  readonly certificate: Credential['certificate'];
  /** For HTTP/1.1. */
  readonly agent: Agent;
  /** The HTTP/2 sessions; undefined if the server must not be used with HTTP/2. */
  readonly sessions: Http2Sessions | undefined;
}

/** Sends requests to one server. The owner disposes it: all connections are closed then. */
export class Transport implements Disposable {
  readonly #access: ClusterAccess;
  readonly #clock: Clock;
  readonly #secure: boolean;
  /** Whether to use HTTP/1.1: the server chose it, or the two cannot negotiate (ALPN), because there is no TLS. */
  #http1: boolean;
  #pool: Pool | undefined;
  readonly #retired = new Set<Pool>();
  #disposed = false;

  constructor(access: ClusterAccess, clock: Clock) {
    this.#access = access;
    this.#clock = clock;
    this.#secure = access.server.protocol === 'https:';
    // Through a proxy too: Node.js supports proxies only for HTTP/1.1.
    this.#http1 = !this.#secure || access.socketPath !== undefined || access.proxy !== undefined;
  }

  /**
   * Sends a request; resolves when the head of the answer has come. `signal` ends the exchange until the
   * answer has been read: then reading throws its reason.
   *
   * @throws the signal's reason when it aborts; {@link SendError} when no answer begins; {@link RampartError} `INPUT` for
   *   certificates that cannot be used, `DISPOSED` after disposal.
   */
  async send(outgoing: Outgoing, credential: Credential, signal: AbortSignal): Promise<Incoming> {
    signal.throwIfAborted();
    if (this.#disposed)
      throw new RampartError(errorCodes.DISPOSED, { what: 'the Kubernetes client was disposed' });
    const { method, path, headers, body } = outgoing;
    const complete = {
      method,
      path: `${this.#access.server.pathname.replace(/\/+$/, '')}${path}`,
      headers: {
        ...headers,
        ...(credential.authorization !== undefined && { authorization: credential.authorization }),
        ...(body !== undefined && { 'content-length': String(Buffer.byteLength(body)) }),
      },
      body,
    };
    const { agent, sessions } = this.#poolFor(credential);
    const incoming = this.#http1 ? undefined : await sessions?.send(complete, signal);
    return incoming ?? this.#sendHttp1(complete, agent, signal);
  }

  /** Closes the connections that no request is using; those in use stay. The next requests open new ones. */
  closeUnused(): void {
    for (const { agent, sessions } of this.#pools()) {
      closeFree(agent);
      sessions?.closeUnused();
    }
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    for (const { agent, sessions } of this.#pools()) {
      closeFree(agent);
      agent.destroy();
      sessions?.[Symbol.dispose]();
    }
    this.#retired.clear();
  }

  *#pools(): Generator<Pool> {
    if (this.#pool !== undefined) yield this.#pool;
    yield* this.#retired;
  }

  async #sendHttp1(
    { method, path, headers, body }: Outgoing,
    agent: Agent,
    signal: AbortSignal,
  ): Promise<Incoming> {
    const send = this.#secure ? httpsRequest : httpRequest;
    const request = send({
      agent,
      ...this.#address(),
      socketPath: this.#access.socketPath,
      method,
      path,
      headers: headers as Record<string, string | string[]>,
    });
    let incoming: IncomingMessage | undefined;
    const { promise, resolve, reject } = Promise.withResolvers<Incoming>();
    request.once('response', (response) => {
      incoming = response;
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body: response });
    });
    // This listener stays: after the answer has begun, its body reports errors, and one here would end the process.
    request.on('error', reject);
    const onAbort = (): void => void (incoming ?? request).destroy(asError(signal.reason));
    signal.addEventListener('abort', onAbort, { once: true });
    request.once('close', () => signal.removeEventListener('abort', onAbort));
    request.end(body);
    try {
      return await promise;
    } catch (error) {
      signal.throwIfAborted();
      throw new SendError(error, { stale: request.reusedSocket && isReset(error) });
    }
  }

  #address(): { readonly host: string; readonly port: number } {
    const { server } = this.#access;
    return {
      // URL has IPv6 addresses in brackets, connections have them without.
      host: server.hostname.replace(/^\[(.*)\]$/, '$1'),
      port: server.port === '' ? (this.#secure ? 443 : 80) : Number(server.port),
    };
  }

  /** The connections of a certificate: a new certificate gets new ones. */
  #poolFor({ certificate }: Credential): Pool {
    const known = this.#pool;
    if (
      known !== undefined &&
      known.certificate?.cert === certificate?.cert &&
      known.certificate?.key === certificate?.key
    ) {
      return known;
    }
    const pool = this.#secure
      ? this.#securePool(certificate)
      : { certificate, agent: new HttpAgent(this.#agentOptions()), sessions: undefined };
    if (known !== undefined) this.#retire(known);
    return (this.#pool = pool);
  }

  #agentOptions() {
    return { ...agentOptions, proxyEnv: proxyEnvOf(this.#access.proxy) };
  }

  #securePool(certificate: Credential['certificate']): Pool {
    const { ca, insecure = false, serverName, server } = this.#access;
    let secureContext;
    try {
      // Node.js accepts any text as an authority, which has then signed nothing.
      if (ca !== undefined && !ca.includes('-----BEGIN'))
        throw new Error('the certificate authority is not a certificate in PEM form');
      // Made once: otherwise each connection would parse the texts again.
      secureContext = createSecureContext({ ca, ...certificate });
    } catch (error) {
      throw new RampartError(errorCodes.INPUT, {
        what: `the certificates for the Kubernetes API at ${server.host}`,
        why: messageOf(error),
      });
    }
    const tls = { secureContext, rejectUnauthorized: !insecure };
    const agent = new AdoptingAgent({ ...this.#agentOptions(), ...tls, servername: serverName });
    if (this.#http1) return { certificate, agent, sessions: undefined };
    const address = this.#address();
    const sessions = new Http2Sessions({
      server,
      tls: {
        ...tls,
        ...address,
        // As in Node's agent: an IP address is not sent as a server name (RFC 6066, 3).
        servername: serverName ?? (isIP(address.host) === 0 ? address.host : ''),
      },
      keepAliveProbeMs: KEEP_ALIVE_PROBE_MS,
      clock: this.#clock,
      onHttp1: (socket) => {
        this.#http1 = true;
        agent.adopt(socket);
      },
    });
    return { certificate, agent, sessions };
  }

  /** Closes unused connections; one in use is closed when its request ends. */
  #retire(pool: Pool): void {
    pool.agent.maxFreeSockets = 0;
    closeFree(pool.agent);
    pool.sessions?.retire();
    this.#retired.add(pool);
    for (const old of this.#retired) {
      const { agent, sessions } = old;
      if (Object.keys(agent.sockets).length === 0 && sessions?.unused !== false) this.#retired.delete(old);
    }
  }
}

/** An agent that begins with an existing connection. */
class AdoptingAgent extends HttpsAgent {
  #adopted: TLSSocket | undefined;

  adopt(socket: TLSSocket): void {
    this.#adopted = socket;
    // Unused if all requests that waited for it have given up.
    socket.unref();
    socket.setTimeout(IDLE_CONNECTION_MS);
    socket.once('timeout', () => this.closeAdopted());
  }

  closeAdopted(): void {
    this.#adopted?.destroy();
    this.#adopted = undefined;
  }

  override createConnection(...args: Parameters<HttpsAgent['createConnection']>) {
    const socket = this.#adopted;
    this.#adopted = undefined;
    if (socket === undefined || socket.destroyed) return super.createConnection(...args);
    return socket.ref();
  }
}

function closeFree(agent: Agent): void {
  if (agent instanceof AdoptingAgent) agent.closeAdopted();
  for (const sockets of Object.values(agent.freeSockets)) {
    for (const socket of sockets ?? []) socket.destroy();
  }
}

function isReset(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
}
