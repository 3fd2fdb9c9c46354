/** POST requests over one connection that is kept. */
import type {
  Agent,
  ClientRequest,
  IncomingHttpHeaders,
  IncomingMessage,
  OutgoingHttpHeaders,
} from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import { createSecureContext } from 'node:tls';

import type { Clock } from '../time/clock.ts';
import { withoutBrackets } from './address-rules.ts';
import { Agent as HttpAgent, request as httpRequest } from './node-http.ts';
import { checkProxied, proxiesOf, proxyEnvOf, proxyFor, type ProxySettings } from './proxy.ts';

/** PEM: authorities to trust instead of the system's; the client's certificate chain, with its key. */
export interface TlsMaterial {
  readonly ca?: string | Buffer | undefined;
  readonly cert?: string | Buffer | undefined;
  readonly key?: string | Buffer | undefined;
}

export interface PostRequest {
  readonly url: URL;
  readonly headers: OutgoingHttpHeaders;
  readonly body: Buffer;
  readonly tls: TlsMaterial;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Undefined if the body was too long or did not come in time: then the connection was closed. */
  readonly body: Buffer | undefined;
}

export interface KeptConnectionOptions {
  readonly clock: Clock;
  /** Time limit from the look-up of the name to the head of the answer. */
  readonly timeoutMs: number;
  /** Time limit for the rest of the answer. */
  readonly bodyMs: number;
  readonly maxBodyBytes: number;
  /** Default: the system's. If it refuses an address, the address is not called through a proxy either. */
  readonly lookup?: LookupFunction;
  /** Default: those of the environment. */
  readonly proxies?: ProxySettings;
}

const IDLE_CONNECTION_MS = 30_000;

const agentOptions = {
  keepAlive: true,
  maxSockets: 1,
  maxFreeSockets: 1,
  timeout: IDLE_CONNECTION_MS,
} as const;

/** One request at a time. The owner disposes it: the connection is closed then. */
export class KeptConnection implements Disposable {
  readonly #options: KeptConnectionOptions;
  #agent: Agent | undefined;
  #tls: TlsMaterial = {};
  #secure: boolean | undefined;
  readonly #proxies: ProxySettings;
  #proxy: URL | undefined;

  constructor(options: KeptConnectionOptions) {
    this.#options = options;
    this.#proxies = options.proxies ?? proxiesOf(process.env);
  }

  /** @throws the signal's reason when it aborts; what `request` of node:http fails with; an error for no answer in time. */
  async post(request: PostRequest, signal: AbortSignal): Promise<Answer> {
    signal.throwIfAborted();
    const answer = await this.#exchange(request, signal);
    if (answer !== 'stale') return answer;
    // The receiver had closed a kept connection, which says nothing about its present state.
    const again = await this.#exchange(request, signal);
    if (again === 'stale') throw new Error('the connection was closed');
    return again;
  }

  [Symbol.dispose](): void {
    this.#agent?.destroy();
    this.#agent = undefined;
  }

  async #exchange(post: PostRequest, signal: AbortSignal): Promise<Answer | 'stale'> {
    const { clock, timeoutMs, lookup } = this.#options;
    const proxy = proxyFor(post.url, this.#proxies);
    if (proxy !== undefined && lookup !== undefined) await checkProxied(post.url.hostname, lookup);
    signal.throwIfAborted();
    const request = this.#request(post, proxy);
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    let incoming: IncomingMessage | undefined;
    request.once('response', (response) => {
      incoming = response;
      resolve(response);
    });
    // This listener stays: otherwise an error after the answer began would end the process.
    request.on('error', reject);
    const onAbort = (): void => void (incoming ?? request).destroy();
    signal.addEventListener('abort', onAbort, { once: true });
    const late = new Error(`no response within ${timeoutMs} ms`);
    const cancelTimeout = clock.schedule(timeoutMs, () => {
      reject(late);
      request.destroy(late);
    });
    request.end(post.body);
    try {
      const answer = await promise;
      cancelTimeout();
      const { statusCode = 0, headers } = answer;
      return { status: statusCode, headers, body: await this.#read(answer) };
    } catch (error) {
      signal.throwIfAborted();
      if (request.reusedSocket && isReset(error)) return 'stale';
      throw error;
    } finally {
      cancelTimeout();
      signal.removeEventListener('abort', onAbort);
    }
  }

  #request({ url, headers, body, tls }: PostRequest, proxy: URL | undefined): ClientRequest {
    const secure = url.protocol === 'https:';
    const { lookup } = this.#options;
    return (secure ? httpsRequest : httpRequest)({
      agent: this.#agentFor(secure, tls, proxy),
      method: 'POST',
      host: withoutBrackets(url.hostname),
      port: url.port === '' ? (secure ? 443 : 80) : Number(url.port),
      path: `${url.pathname}${url.search}`,
      // The address of a proxy is not restricted.
      ...(lookup && proxy === undefined && { lookup }),
      headers: { ...headers, 'content-length': body.byteLength },
    });
  }

  /** The connection for these certificates; other certificates need a new one. */
  #agentFor(secure: boolean, { ca, cert, key }: TlsMaterial, proxy: URL | undefined): Agent {
    const known = this.#tls;
    const isKnown =
      secure === this.#secure &&
      proxy?.href === this.#proxy?.href &&
      same(known.ca, ca) &&
      same(known.cert, cert) &&
      same(known.key, key);
    if (this.#agent !== undefined && isKnown) return this.#agent;
    // Made once: otherwise each connection would parse the texts again.
    const secureContext = secure ? createSecureContext({ ca, cert, key }) : undefined;
    this.#agent?.destroy();
    this.#tls = { ca, cert, key };
    this.#secure = secure;
    this.#proxy = proxy;
    const options = { ...agentOptions, proxyEnv: proxyEnvOf(proxy) };
    // `rejectUnauthorized` is set because NODE_TLS_REJECT_UNAUTHORIZED would decide otherwise.
    this.#agent =
      secureContext === undefined
        ? new HttpAgent(options)
        : new HttpsAgent({ ...options, secureContext, rejectUnauthorized: true });
    return this.#agent;
  }

  /** Reads the whole body, so that the connection can be used again. */
  async #read(answer: IncomingMessage): Promise<Buffer | undefined> {
    const { clock, bodyMs, maxBodyBytes } = this.#options;
    const { promise, resolve } = Promise.withResolvers<void>();
    const parts: Buffer[] = [];
    let sizeBytes = 0;
    const cancel = clock.schedule(bodyMs, () => answer.destroy());
    answer.on('data', (part: Buffer) => {
      sizeBytes += part.byteLength;
      if (sizeBytes > maxBodyBytes) answer.destroy();
      else parts.push(part);
    });
    answer.on('error', () => undefined);
    answer.once('close', resolve);
    answer.once('end', resolve);
    await promise;
    cancel();
    return answer.complete && sizeBytes <= maxBodyBytes ? Buffer.concat(parts) : undefined;
  }
}

function same(one: string | Buffer | undefined, other: string | Buffer | undefined): boolean {
  if (one === other) return true;
  return one !== undefined && other !== undefined && Buffer.from(one).equals(Buffer.from(other));
}

function isReset(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return code === 'ECONNRESET' || code === 'EPIPE';
}
