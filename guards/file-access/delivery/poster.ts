/** One POST to one callback, over a connection that is kept. */
import type { Agent, ClientRequest, IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { createSecureContext } from 'node:tls';

import manifest from '../../../package.json' with { type: 'json' };
import { describeConnectionFailure } from '../../../lib/net/connection-failure.ts';
import { RampartError } from '../../../lib/errors/errors.ts';
import { Agent as HttpAgent, request as httpRequest } from '../../../lib/net/node-http.ts';
import type { Clock } from '../../../lib/time/clock.ts';
import { type AddressRules, withoutBrackets } from '../../../lib/net/address-rules.ts';
import { isPrivateWay, parseCallback } from './callback-url.ts';
import { type Outcome, outcomeOf } from './outcome.ts';
import type { StoredRecord } from '../../../lib/spool/record.ts';

/** What a callback wants to see. Asked for anew before each try, so that what is rotated is used. */
export interface Credentials {
  /** Sent as `authorization: Bearer ...`, over https or to a loopback address only. */
  readonly bearerToken?: string | undefined;
  /** PEM: authorities to trust instead of the system's. */
  readonly ca?: string | Buffer | undefined;
  /** PEM: the client's certificate chain, with `key`. */
  readonly cert?: string | Buffer | undefined;
  readonly key?: string | Buffer | undefined;
  /** Called when these were no good: HTTP 401 or 403, or the two sides do not agree about certificates. */
  readonly onRefused?: () => void;
}

/**
 * @param secret `namespace/name` of the Secret to take them from; empty where whoever sends decides.
 * @param signal Aborts when nobody waits for them any more.
 * @returns undefined for a callback without any; with a Secret that counts as a failed try, as does what it throws.
 */
export type CredentialsFor = (
  callback: string,
  secret: string,
  signal: AbortSignal,
) => Credentials | undefined | Promise<Credentials | undefined>;

export interface PosterOptions {
  readonly rules: AddressRules;
  readonly credentialsFor: CredentialsFor;
  /** From the look-up of the name to the head of the answer. */
  readonly timeoutMs: number;
  readonly clock: Clock;
}

/** Of an answer's body, which says nothing that is used. Above it, or when it takes longer, the connection is given up. */
const MAX_ANSWER_BYTES = 4096;
const ANSWER_MS = 1000;
const IDLE_CONNECTION_MS = 30_000;
/** RFC 6750, 2.1, `b64token`. */
export const tokenForm = /^[A-Za-z0-9\-._~+/]+=*$/;

const agentOptions = {
  keepAlive: true,
  maxSockets: 1,
  maxFreeSockets: 1,
  timeout: IDLE_CONNECTION_MS,
  // Whatever the environment says: a proxy would resolve the name itself, and no rule would apply.
  proxyEnv: {},
} as const;

type Material = Pick<Credentials, 'ca' | 'cert' | 'key'>;

/** All that a request needs besides the alert. */
export interface Prepared {
  readonly kind: 'prepared';
  readonly url: URL;
  readonly credentials: Credentials;
}

/** Sends to one callback, one alert at a time. The owner disposes it: the connection is closed then. */
export class Poster implements Disposable {
  readonly #callback: string;
  readonly #secret: string;
  readonly #options: PosterOptions;
  #agent: Agent | undefined;
  #material: Material = {};

  /** @param secret As for {@link CredentialsFor}. */
  constructor(callback: string, secret: string, options: PosterOptions) {
    this.#callback = callback;
    this.#secret = secret;
    this.#options = options;
  }

  /**
   * The credentials to post with, or why nothing is posted now. No credential is in any text of it.
   *
   * @throws the signal's reason when it aborts.
   */
  async prepare(signal: AbortSignal): Promise<Prepared | Outcome> {
    signal.throwIfAborted();
    const url = parseCallback(this.#callback, this.#options.rules);
    if (typeof url === 'string') return failed(`the callback is not used: ${url}`);
    const credentials = await this.#credentials(url, signal);
    if (typeof credentials !== 'string') return { kind: 'prepared', url, credentials };
    return { kind: 'failed', why: credentials, aboutCredentials: true };
  }

  /**
   * Sends an alert; resolves with what came of it. No credential is in any text of it.
   *
   * @throws the signal's reason when it aborts.
   */
  async post(alert: StoredRecord, { url, credentials }: Prepared, signal: AbortSignal): Promise<Outcome> {
    signal.throwIfAborted();
    try {
      let answer = await this.#exchange(url, alert, credentials, signal);
      // The receiver had closed a kept connection: that says nothing about the receiver as it is now.
      if (answer === 'stale') answer = await this.#exchange(url, alert, credentials, signal);
      if (answer === 'stale') return failed('the connection was closed');
      if (answer.kind === 'failed' && answer.aboutCredentials) credentials.onRefused?.();
      return answer;
    } catch (error) {
      signal.throwIfAborted();
      const why = describeConnectionFailure(error);
      if (!isAboutCertificates(error)) return failed(why);
      credentials.onRefused?.();
      return { kind: 'failed', why, aboutCredentials: true };
    }
  }

  [Symbol.dispose](): void {
    this.#agent?.destroy();
    this.#agent = undefined;
  }

  /** The credentials, or in words why there are none to be used. */
  async #credentials(url: URL, signal: AbortSignal): Promise<Credentials | string> {
    const secret = this.#secret;
    if (secret !== '' && url.protocol !== 'https:') return 'a Secret requires https';
    let credentials: Credentials | undefined;
    try {
      credentials = await this.#options.credentialsFor(this.#callback, secret, signal);
    } catch (error) {
      signal.throwIfAborted();
      // Of others' errors only the code: who knows what is in the message.
      const why = error instanceof RampartError ? error.message : codeOf(error);
      return `its credentials cannot be read${why === undefined ? '' : `: ${why}`}`;
    }
    const { bearerToken, ca, cert, key } = credentials ?? {};
    // Whoever names a Secret means it: without what is in it nothing is sent.
    if (secret !== '' && !bearerToken && !ca && !(cert && key)) return 'its credentials are unknown';
    if (credentials === undefined || bearerToken === undefined) return credentials ?? {};
    if (!isPrivateWay(url)) return 'a bearer token is not sent over plain http';
    const token = bearerToken.trim();
    if (!tokenForm.test(token)) return 'its bearer token contains invalid characters';
    return { ...credentials, bearerToken: token };
  }

  async #exchange(
    url: URL,
    alert: StoredRecord,
    credentials: Credentials,
    signal: AbortSignal,
  ): Promise<Outcome | 'stale'> {
    const { clock, timeoutMs } = this.#options;
    const request = this.#request(url, alert, credentials);
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    let incoming: IncomingMessage | undefined;
    request.once('response', (response) => {
      incoming = response;
      resolve(response);
    });
    // Stays: an error after the answer began would end the process.
    request.on('error', reject);
    const onAbort = (): void => void (incoming ?? request).destroy();
    signal.addEventListener('abort', onAbort, { once: true });
    const late = new Error(`no response within ${timeoutMs} ms`);
    const cancelTimeout = clock.schedule(timeoutMs, () => {
      reject(late);
      request.destroy(late);
    });
    request.end(alert.line);
    try {
      const answer = await promise;
      cancelTimeout();
      const outcome = outcomeOf(answer.statusCode ?? 0, answer.headers['retry-after'], clock.wallMs());
      await drain(answer, clock);
      return outcome;
    } catch (error) {
      signal.throwIfAborted();
      if (request.reusedSocket && isReset(error)) return 'stale';
      throw error;
    } finally {
      cancelTimeout();
      signal.removeEventListener('abort', onAbort);
    }
  }

  #request(url: URL, alert: StoredRecord, credentials: Credentials): ClientRequest {
    const secure = url.protocol === 'https:';
    const { rules } = this.#options;
    const { bearerToken } = credentials;
    return (secure ? httpsRequest : httpRequest)({
      agent: this.#agentFor(secure, credentials),
      method: 'POST',
      host: withoutBrackets(url.hostname),
      port: url.port === '' ? (secure ? 443 : 80) : Number(url.port),
      path: `${url.pathname}${url.search}`,
      lookup: rules.lookup,
      headers: {
        'content-type': 'application/json',
        'content-length': alert.line.byteLength,
        'user-agent': `rampart/${manifest.version}`,
        'x-rampart-alert-id': alert.id,
        ...(bearerToken !== undefined && { authorization: `Bearer ${bearerToken}` }),
      },
    });
  }

  /** The connection for these certificates. With new ones comes a new one. */
  #agentFor(secure: boolean, { ca, cert, key }: Material): Agent {
    const known = this.#material;
    if (this.#agent !== undefined && same(known.ca, ca) && same(known.cert, cert) && same(known.key, key)) {
      return this.#agent;
    }
    // Made once, and not by each connection from the texts.
    const secureContext = secure ? createSecureContext({ ca, cert, key }) : undefined;
    this.#agent?.destroy();
    this.#material = { ca, cert, key };
    // `rejectUnauthorized`, or NODE_TLS_REJECT_UNAUTHORIZED would decide.
    this.#agent =
      secureContext === undefined
        ? new HttpAgent(agentOptions)
        : new HttpsAgent({ ...agentOptions, secureContext, rejectUnauthorized: true });
    return this.#agent;
  }
}

function failed(why: string): Outcome {
  return { kind: 'failed', why };
}

/** Reads and drops the body, so that the connection can be used again, or gives the connection up. */
async function drain(answer: IncomingMessage, clock: Clock): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let leftBytes = MAX_ANSWER_BYTES;
  const cancel = clock.schedule(ANSWER_MS, () => answer.destroy());
  answer.on('data', (part: Buffer) => {
    leftBytes -= part.byteLength;
    if (leftBytes < 0) answer.destroy();
  });
  answer.on('error', () => undefined);
  answer.once('close', resolve);
  answer.once('end', resolve);
  await promise;
  cancel();
}

function same(one: string | Buffer | undefined, other: string | Buffer | undefined): boolean {
  if (one === other) return true;
  return one !== undefined && other !== undefined && Buffer.from(one).equals(Buffer.from(other));
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Codes of OpenSSL and of Node.js: no agreement about TLS, or a certificate that is not taken. */
function isAboutCertificates(error: unknown): boolean {
  return /^ERR_(SSL|TLS)_|CERT|SIGNATURE/.test(codeOf(error) ?? '');
}

function isReset(error: unknown): boolean {
  return codeOf(error) === 'ECONNRESET' || codeOf(error) === 'EPIPE';
}
