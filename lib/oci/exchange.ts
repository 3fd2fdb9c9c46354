/**
 * One HTTP exchange with a registry: keep-alive, a certificate authority for each host, redirects, timeouts and limits.
 *
 * Users choose the host, and whoever asks may be on the node: addresses that only the machine reaches are not called, whether by name or by
 * redirect, unless the configuration names the host.
 * Uses node:https, not fetch, which does not support certificate authorities and costs each process 5 MiB.
 */
import type { Agent, IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { getCACertificates } from 'node:tls';

import { describeConnectionFailure } from '../net/connection-failure.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import { AddressRules } from '../net/address-rules.ts';
import { Agent as HttpAgent, request as httpRequest } from '../net/node-http.ts';
import { checkProxied, proxiesOf, proxyEnvOf, proxyFor, type ProxySettings } from '../net/proxy.ts';
import { hostName } from './reference.ts';

/** How a host is accessed. `unverified` and `plain` only if configured for that host. */
export type Security = 'verified' | 'unverified' | 'plain';
export const everyWay: readonly Security[] = ['verified', 'unverified', 'plain'];

export interface Question {
  readonly url: URL;
  readonly security: Security;
  readonly method?: 'GET' | 'HEAD' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Limit of the response's size; larger ones are rejected. */
  readonly maxBytes: number;
  /** The content being fetched, for messages: `the manifest of registry.example/a:b`. */
  readonly what: string;
  readonly signal?: AbortSignal | undefined;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Uint8Array;
}

/** No response: no connection, a broken one, or silence. */
export class ExchangeError extends Error {
  /** Whether the connection failed in TLS: access without it, or with another authority, may work. */
  readonly tls: boolean;
  /**
   * The host to which the connection failed or broke off, if the message reveals what listens there.
   * Undefined: no host was called, or the reason may be shown to a tenant.
   */
  readonly failedHost: string | undefined;

  /**
   * @param host - The host that was called; undefined: none was.
   * @param proxy - The proxy's host, if `host` was called through one.
   */
  constructor(cause: Error, host?: string, proxy?: string) {
    const why = describeConnectionFailure(cause);
    super(proxy === undefined ? why : `through the proxy ${proxy}: ${why}`, { cause });
    this.name = 'ExchangeError';
    const code = (cause as NodeJS.ErrnoException).code ?? '';
    // Failures whose reason a tenant may see: an unresolvable name, a refused address, a certificate that is
    // not trusted. The reasons of all others would tell which ports are open.
    const isReported =
      /^(ENOTFOUND|EAI_AGAIN|RAMPART_|CERT_|UNABLE_TO|DEPTH_ZERO|SELF_SIGNED|HOSTNAME_MISMATCH|ERR_TLS_CERT)/.test(
        code,
      );
    this.failedHost = isReported ? undefined : host;
    this.tls = /^(ERR_(SSL|TLS)|EPROTO|CERT_|UNABLE_TO|DEPTH_ZERO|SELF_SIGNED|HOSTNAME_MISMATCH)/.test(code);
  }
}

interface ExchangeOptions {
  /** PEM for each host, besides the authorities that the machine trusts. */
  readonly authorities: ReadonlyMap<string, readonly string[]>;
  /** An exchange fails after this long without a byte. */
  readonly idleTimeoutMs: number;
  /** Default: those of the environment. */
  readonly proxies?: ProxySettings | undefined;
}

const exception = (host: string): string =>
  `configure the certificate authority of ${host}, or mark it as insecure`;
const MAX_REDIRECTS = 5;
const MAX_REFUSAL_BYTES = 64 * 1024;
const IDLE_CONNECTION_MS = 20_000;
const agentOptions = {
  keepAlive: true,
  maxFreeSockets: 4,
  timeout: IDLE_CONNECTION_MS,
  maxSockets: 8,
} as const;

/** The owner disposes it: connections are closed then, and running exchanges fail. */
export class Exchange implements Disposable {
  readonly #options: ExchangeOptions;
  readonly #agents = new Map<string, Agent>();
  readonly #rules = new AddressRules({ exception });
  readonly #proxies: ProxySettings;
  #disposed = false;

  constructor(options: ExchangeOptions) {
    this.#options = options;
    this.#proxies = options.proxies ?? proxiesOf(process.env);
  }

  /**
   * Sends a request, and reads the entire response.
   *
   * @throws the signal's reason; {@link ExchangeError}; {@link RampartError} `LIMIT` for a response that is too large,
   *   `DISPOSED`, `INPUT` for authorities that are not certificates.
   */
  async ask(question: Question): Promise<Answer> {
    let { url, security, headers = {} } = question;
    let redirects = 0;
    for (;;) {
      question.signal?.throwIfAborted();
      const isNamed =
        this.#authoritiesOf(url) !== undefined || (security !== 'verified' && url.host === question.url.host);
      const incoming = await this.#send({ ...question, url, security, headers }, isNamed);
      const status = incoming.statusCode ?? 0;
      const { location } = incoming.headers;
      if (
        ![301, 302, 303, 307, 308].includes(status) ||
        location === undefined ||
        question.method === 'POST'
      ) {
        return { status, headers: incoming.headers, body: await readBody(incoming, { ...question, url }) };
      }
      incoming.resume();
      if (++redirects > MAX_REDIRECTS) {
        throw new ExchangeError(new Error(`${url.host} redirects more than ${MAX_REDIRECTS} times`));
      }
      const next = new URL(location, url);
      if (next.protocol !== 'https:' && (next.protocol !== 'http:' || security !== 'plain')) {
        throw new ExchangeError(
          new Error(`${url.host} redirects to ${next.protocol}//${next.host}, which is not secure`),
        );
      }
      // Credentials and exceptions of one server do not apply to another.
      if (next.host !== url.host) {
        headers = withoutCredentials(headers);
        if (security === 'unverified') security = 'verified';
      }
      url = next;
    }
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    for (const agent of this.#agents.values()) agent.destroy();
    this.#agents.clear();
  }

  #authoritiesOf(url: URL): readonly string[] | undefined {
    return this.#options.authorities.get(url.host) ?? this.#options.authorities.get(hostName(url.host));
  }

  /** @param isNamed - Whether the configuration names the host: then its address is not restricted. */
  async #send(
    { url, security, method = 'GET', headers, body, signal }: Question,
    isNamed: boolean,
  ): Promise<IncomingMessage> {
    if (this.#disposed)
      throw new RampartError(errorCodes.DISPOSED, { what: 'the registry client was disposed' });
    const refusal = isNamed ? undefined : this.#rules.refusalOfHost(hostName(url.host));
    if (refusal !== undefined)
      throw new ExchangeError(new Error(`${refusal}; to call it, ${exception(url.host)}`));
    const proxy = proxyFor(url, this.#proxies);
    if (proxy !== undefined && !isNamed) await this.#checkProxied(url);
    const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const request = send({
      agent: this.#agent(url, security, isNamed, proxy),
      // The address of a proxy is not restricted.
      ...(!isNamed && proxy === undefined && { lookup: this.#rules.lookup }),
      host: hostName(url.host),
      port: url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port),
      method,
      path: `${url.pathname}${url.search}`,
      headers: {
        host: url.host,
        'user-agent': 'rampart',
        ...headers,
        ...(body !== undefined && { 'content-length': Buffer.byteLength(body) }),
      },
    });
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    let incoming: IncomingMessage | undefined;
    request.once('response', (response) => {
      incoming = response;
      resolve(response);
    });
    request.on('error', reject);
    const end = (reason: Error): void => void (incoming ?? request).destroy(reason);
    request.setTimeout(this.#options.idleTimeoutMs, () =>
      end(new Error(`${url.host} sent nothing for ${this.#options.idleTimeoutMs / 1000} s`)),
    );
    const onAbort = (): void => end(signal?.reason instanceof Error ? signal.reason : new Error('aborted'));
    signal?.addEventListener('abort', onAbort, { once: true });
    request.once('close', () => signal?.removeEventListener('abort', onAbort));
    request.end(body);
    try {
      return await promise;
    } catch (error) {
      signal?.throwIfAborted();
      throw new ExchangeError(error as Error, url.host, proxy?.host);
    }
  }

  async #checkProxied(url: URL): Promise<void> {
    try {
      await checkProxied(hostName(url.host), this.#rules.lookup);
    } catch (error) {
      throw new ExchangeError(error as Error, url.host);
    }
  }

  #agent(url: URL, security: Security, isNamed: boolean, proxy: URL | undefined): Agent {
    const secure = url.protocol === 'https:';
    // A connection to a named host may be to an address that requests for other hosts must not reach.
    const key = `${isNamed} ${proxy?.href} ${secure ? `${security} ${url.host}` : 'plain'}`;
    let agent = this.#agents.get(key);
    if (agent === undefined) {
      const given = this.#authoritiesOf(url);
      agent = secure
        ? new HttpsAgent({
            ...{ ...agentOptions, proxyEnv: proxyEnvOf(proxy) },
            rejectUnauthorized: security === 'verified',
            ...(given !== undefined && { ca: [...getCACertificates('default'), ...given] }),
          })
        : new HttpAgent({ ...agentOptions, proxyEnv: proxyEnvOf(proxy) });
      this.#agents.set(key, agent);
    }
    return agent;
  }
}

async function readBody(
  incoming: IncomingMessage,
  { url: { host }, method, maxBytes, what, signal }: Question,
): Promise<Uint8Array> {
  const isAnswer = incoming.statusCode === 200;
  const tooLarge = (): RampartError =>
    new RampartError(errorCodes.LIMIT, {
      what: `${what} is too large`,
      why: `it has more than ${maxBytes} bytes`,
      next: 'Make it smaller, or raise the limit',
    });
  if (isAnswer && method !== 'HEAD' && Number(incoming.headers['content-length'] ?? 0) > maxBytes) {
    incoming.destroy();
    throw tooLarge();
  }
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  try {
    for await (const chunk of incoming) {
      sizeBytes += (chunk as Uint8Array).length;
      if (isAnswer && sizeBytes > maxBytes) throw tooLarge();
      // The beginning of an error response is enough; leaving the loop closes the connection.
      if (!isAnswer && sizeBytes > MAX_REFUSAL_BYTES) break;
      chunks.push(chunk as Uint8Array);
    }
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof RampartError) throw error;
    throw new ExchangeError(error as Error, host);
  }
  return Buffer.concat(chunks);
}

function withoutCredentials(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => name.toLowerCase() !== 'authorization'),
  );
}
