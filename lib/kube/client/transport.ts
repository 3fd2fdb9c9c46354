/** One HTTP exchange with the API server, over connections that are kept. */
import type { Agent, ClientRequest, IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { createSecureContext } from 'node:tls';

import { describeConnectionFailure } from '../../net/connection-failure.ts';
import { errorCodes, messageOf, RampartError } from '../../errors/errors.ts';
import { Agent as HttpAgent, request as httpRequest } from '../../net/node-http.ts';
import type { ClusterAccess } from '../access/cluster-access.ts';
import type { Credential } from '../access/credentials.ts';

interface Outgoing {
  readonly method: string;
  /** From the server's root, with the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | undefined;
}

/** An answer whose body has not been read. Read it to its end, or destroy it. */
export type Incoming = IncomingMessage;

/** Dead peers are found by TCP this long after the last byte, plus some 10 s of probes (libuv sets those). */
const KEEP_ALIVE_PROBE_MS = 15_000;
/** Unused connections are closed before the API server does it, which is after 90 s, so that none is taken just then. */
const IDLE_CONNECTION_MS = 60_000;
/** As many as an audit uses at once: with fewer, connections are closed and opened all the time. */
const MAX_IDLE_CONNECTIONS = 64;

const agentOptions = {
  keepAlive: true,
  keepAliveMsecs: KEEP_ALIVE_PROBE_MS,
  maxFreeSockets: MAX_IDLE_CONNECTIONS,
  timeout: IDLE_CONNECTION_MS,
} as const;

/** Sends requests to one server. The owner disposes it: all connections are closed then. */
export class Transport implements Disposable {
  readonly #access: ClusterAccess;
  readonly #secure: boolean;
  #pool: { readonly certificate: Credential['certificate']; readonly agent: Agent } | undefined;
  readonly #retired = new Set<Agent>();
  #disposed = false;

  constructor(access: ClusterAccess) {
    this.#access = access;
    this.#secure = access.server.protocol === 'https:';
  }

  /**
   * Sends a request; resolves when the head of the answer is there. `signal` ends the exchange until the
   * answer has been read: then reading throws its reason.
   *
   * @throws the signal's reason when it aborts; {@link SendError} when no answer begins; {@link RampartError} `INPUT` for
   *   certificates that cannot be used, `DISPOSED` after disposal.
   */
  async send(outgoing: Outgoing, credential: Credential, signal: AbortSignal): Promise<Incoming> {
    signal.throwIfAborted();
    const request = this.#request(outgoing, credential);
    let incoming: IncomingMessage | undefined;
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    request.once('response', (response) => {
      incoming = response;
      resolve(response);
    });
    // Stays: after the answer has begun, an error comes from its body, and one here would end the process.
    request.on('error', reject);
    const onAbort = (): void => void (incoming ?? request).destroy(asError(signal.reason));
    signal.addEventListener('abort', onAbort, { once: true });
    request.once('close', () => signal.removeEventListener('abort', onAbort));
    request.end(outgoing.body);
    try {
      return await promise;
    } catch (error) {
      signal.throwIfAborted();
      throw new SendError(error, request.reusedSocket && isReset(error));
    }
  }

  /** Closes the connections that no request is using; those in use stay. The next requests open new ones. */
  closeUnused(): void {
    for (const agent of [this.#pool?.agent, ...this.#retired]) if (agent !== undefined) closeFree(agent);
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    for (const agent of [this.#pool?.agent, ...this.#retired]) agent?.destroy();
    this.#retired.clear();
  }

  #request({ method, path, headers, body }: Outgoing, credential: Credential): ClientRequest {
    if (this.#disposed)
      throw new RampartError(errorCodes.DISPOSED, { what: 'the Kubernetes client was disposed' });
    const { server, socketPath } = this.#access;
    const prefix = server.pathname.replace(/\/+$/, '');
    const send = this.#secure ? httpsRequest : httpRequest;
    return send({
      agent: this.#agent(credential),
      // URL has IPv6 addresses in brackets, connections have them without.
      host: server.hostname.replace(/^\[(.*)\]$/, '$1'),
      port: server.port === '' ? (this.#secure ? 443 : 80) : Number(server.port),
      socketPath,
      method,
      path: `${prefix}${path}`,
      headers: {
        ...(headers as Record<string, string | string[]>),
        ...(credential.authorization !== undefined && { authorization: credential.authorization }),
        ...(body !== undefined && { 'content-length': Buffer.byteLength(body) }),
      },
    });
  }

  /** The connections for a client certificate. With a new certificate come new ones. */
  #agent({ certificate }: Credential): Agent {
    const known = this.#pool;
    if (
      known !== undefined &&
      known.certificate?.cert === certificate?.cert &&
      known.certificate?.key === certificate?.key
    ) {
      return known.agent;
    }
    const agent = this.#secure ? this.#httpsAgent(certificate) : new HttpAgent(agentOptions);
    if (known !== undefined) this.#retire(known.agent);
    this.#pool = { certificate, agent };
    return agent;
  }

  #httpsAgent(certificate: Credential['certificate']): HttpsAgent {
    const { ca, insecure = false, serverName } = this.#access;
    let secureContext;
    try {
      // Node.js takes any text for an authority that has signed nothing.
      if (ca !== undefined && !ca.includes('-----BEGIN'))
        throw new Error('the certificate authority is not a certificate in PEM form');
      // Made once, and not by each connection from the texts.
      secureContext = createSecureContext({ ca, ...certificate });
    } catch (error) {
      throw new RampartError(errorCodes.INPUT, {
        what: `the certificates for the Kubernetes API at ${this.#access.server.host}`,
        why: messageOf(error),
      });
    }
    return new HttpsAgent({
      ...agentOptions,
      secureContext,
      rejectUnauthorized: !insecure,
      servername: serverName,
    });
  }

  /** Closes what is unused; what is in use is closed when its request ends. */
  #retire(agent: Agent): void {
    agent.maxFreeSockets = 0;
    closeFree(agent);
    this.#retired.add(agent);
    for (const old of this.#retired) if (Object.keys(old.sockets).length === 0) this.#retired.delete(old);
  }
}

function closeFree(agent: Agent): void {
  for (const sockets of Object.values(agent.freeSockets)) {
    for (const socket of sockets ?? []) socket.destroy();
  }
}

/** A request that failed before an answer began. */
export class SendError extends Error {
  /** The server had closed the connection, one from before, and so most likely never saw the request. */
  readonly stale: boolean;

  constructor(cause: unknown, stale: boolean) {
    super(describeConnectionFailure(cause), { cause });
    this.name = 'SendError';
    this.stale = stale;
  }
}

function isReset(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}
