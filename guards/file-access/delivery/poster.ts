/** Sends alerts to one callback by POST, over a connection that is kept open. */
import manifest from '../../../package.json' with { type: 'json' };
import { describeConnectionFailure } from '../../../lib/net/connection-failure.ts';
import { RampartError } from '../../../lib/errors/errors.ts';
import { KeptConnection, type TlsMaterial } from '../../../lib/net/kept-connection.ts';
import type { Clock } from '../../../lib/time/clock.ts';
import type { AddressRules } from '../../../lib/net/address-rules.ts';
import { isPrivateWay, parseCallback } from './callback-url.ts';
import { type Outcome, outcomeOf } from './outcome.ts';
import type { StoredRecord } from '../../../lib/spool/record.ts';

/** The credentials for a callback. They are requested before each attempt, so that rotated ones are used. */
export interface Credentials extends TlsMaterial {
  /** Sent as `authorization: Bearer ...`, but only over https or to a loopback address. */
  readonly bearerToken?: string | undefined;
  /** Called if they were not accepted: HTTP 401 or 403, or certificates that one of the two sides rejects. */
  readonly onRefused?: () => void;
}

/**
 * @param secret `namespace/name` of the Secret with the credentials; empty: the sender's default.
 * @param signal Aborts when the credentials are no longer needed.
 * @returns undefined for a callback without credentials. If a Secret is named, that counts as a failed attempt, as does an error.
 */
export type CredentialsFor = (
  callback: string,
  secret: string,
  signal: AbortSignal,
) => Credentials | undefined | Promise<Credentials | undefined>;

export interface PosterOptions {
  readonly rules: AddressRules;
  readonly credentialsFor: CredentialsFor;
  /** Limit from resolving the host name to receiving the head of the response. */
  readonly timeoutMs: number;
  readonly clock: Clock;
}

/** Maximum size of a response body, which is read but not used. The connection is closed if the body is longer, or takes too long. */
const MAX_ANSWER_BYTES = 4096;
const ANSWER_MS = 1000;
/** RFC 6750, 2.1, `b64token`. */
export const tokenForm = /^[A-Za-z0-9\-._~+/]+=*$/;

/** All that a request needs besides the alert. */
export interface Prepared {
  readonly kind: 'prepared';
  readonly url: URL;
  readonly credentials: Credentials;
}

/** Sends to one callback, one alert at a time. The owner disposes of it, which closes the connection. */
export class Poster implements Disposable {
  readonly #callback: string;
  readonly #secret: string;
  readonly #options: PosterOptions;
  readonly #connection: KeptConnection;

  /** @param secret As in {@link CredentialsFor}. */
  constructor(callback: string, secret: string, options: PosterOptions) {
    this.#callback = callback;
    this.#secret = secret;
    this.#options = options;
    const { clock, timeoutMs, rules } = options;
    this.#connection = new KeptConnection({
      ...{ clock, timeoutMs, lookup: rules.lookup },
      bodyMs: ANSWER_MS,
      maxBodyBytes: MAX_ANSWER_BYTES,
    });
  }

  /**
   * The URL and credentials to post with, or the outcome if nothing can be sent now; its texts contain no credentials.
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
   * Sends an alert and resolves with the outcome, whose texts contain no credentials.
   *
   * @throws the signal's reason when it aborts.
   */
  async post(alert: StoredRecord, { url, credentials }: Prepared, signal: AbortSignal): Promise<Outcome> {
    signal.throwIfAborted();
    const { bearerToken } = credentials;
    const headers = {
      'content-type': 'application/json',
      'user-agent': `rampart/${manifest.version}`,
      'x-rampart-alert-id': alert.id,
      ...(bearerToken !== undefined && { authorization: `Bearer ${bearerToken}` }),
    };
    try {
      const answer = await this.#connection.post(
        { url, headers, body: alert.line, tls: credentials },
        signal,
      );
      const nowMs = this.#options.clock.wallMs();
      const outcome = outcomeOf(answer.status, answer.headers['retry-after'], nowMs);
      if (outcome.kind === 'failed' && outcome.aboutCredentials) credentials.onRefused?.();
      return outcome;
    } catch (error) {
      signal.throwIfAborted();
      const why = describeConnectionFailure(error);
      if (!isAboutCertificates(error)) return failed(why);
      credentials.onRefused?.();
      return { kind: 'failed', why, aboutCredentials: true };
    }
  }

  [Symbol.dispose](): void {
    this.#connection[Symbol.dispose]();
  }

  /** The credentials, or a text that says why they are missing. */
  async #credentials(url: URL, signal: AbortSignal): Promise<Credentials | string> {
    const secret = this.#secret;
    if (secret !== '' && url.protocol !== 'https:') return 'a Secret requires https';
    let credentials: Credentials | undefined;
    try {
      credentials = await this.#options.credentialsFor(this.#callback, secret, signal);
    } catch (error) {
      signal.throwIfAborted();
      // For other errors only the code, since their messages may contain secrets.
      const why = error instanceof RampartError ? error.message : codeOf(error);
      return `its credentials cannot be read${why === undefined ? '' : `: ${why}`}`;
    }
    const { bearerToken, ca, cert, key } = credentials ?? {};
    // If a trap names a Secret, nothing is sent without its contents.
    if (secret !== '' && !bearerToken && !ca && !(cert && key)) return 'its credentials are unknown';
    if (credentials === undefined || bearerToken === undefined) return credentials ?? {};
    if (!isPrivateWay(url)) return 'a bearer token is not sent over plain http';
    const token = bearerToken.trim();
    if (!tokenForm.test(token)) return 'its bearer token contains invalid characters';
    return { ...credentials, bearerToken: token };
  }
}

function failed(why: string): Outcome {
  return { kind: 'failed', why };
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** By the codes of OpenSSL and Node.js: the two sides cannot agree on TLS, or one rejects the other's certificate. */
function isAboutCertificates(error: unknown): boolean {
  return /^ERR_(SSL|TLS)_|CERT|SIGNATURE/.test(codeOf(error) ?? '');
}
