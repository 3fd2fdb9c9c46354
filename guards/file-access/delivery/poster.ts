/** One POST to one callback, over a connection that is kept. */
import manifest from '../../../package.json' with { type: 'json' };
import { describeConnectionFailure } from '../../../lib/net/connection-failure.ts';
import { RampartError } from '../../../lib/errors/errors.ts';
import { KeptConnection, type TlsMaterial } from '../../../lib/net/kept-connection.ts';
import type { Clock } from '../../../lib/time/clock.ts';
import type { AddressRules } from '../../../lib/net/address-rules.ts';
import { isPrivateWay, parseCallback } from './callback-url.ts';
import { type Outcome, outcomeOf } from './outcome.ts';
import type { StoredRecord } from '../../../lib/spool/record.ts';

/** The credentials for a callback. Requested before each try, so that rotated ones are used. */
export interface Credentials extends TlsMaterial {
  /** Sent as `authorization: Bearer ...`, over https or to a loopback address only. */
  readonly bearerToken?: string | undefined;
  /** Called when these were no good: HTTP 401 or 403, or the two sides do not agree about certificates. */
  readonly onRefused?: () => void;
}

/**
 * @param secret `namespace/name` of the Secret with the credentials; empty for the sender's default.
 * @param signal Aborts when they are no longer needed.
 * @returns undefined for a callback without credentials; with a Secret, that counts as a failed try, and so
 * does an error.
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

/**
 * Limit of an answer's body, which is not used. Beyond it, or if it takes longer, the connection is closed.
 */
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

/** Sends to one callback, one alert at a time. The owner disposes it: the connection is closed then. */
export class Poster implements Disposable {
  readonly #callback: string;
  readonly #secret: string;
  readonly #options: PosterOptions;
  readonly #connection: KeptConnection;

  /** @param secret As for {@link CredentialsFor}. */
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
   * The credentials to post with, or why nothing is posted now: its texts contain no credentials.
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
   * Sends an alert; resolves with what came of it. Its texts contain no credentials.
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

  /** The credentials, or a text with the reason why they are missing. */
  async #credentials(url: URL, signal: AbortSignal): Promise<Credentials | string> {
    const secret = this.#secret;
    if (secret !== '' && url.protocol !== 'https:') return 'a Secret requires https';
    let credentials: Credentials | undefined;
    try {
      credentials = await this.#options.credentialsFor(this.#callback, secret, signal);
    } catch (error) {
      signal.throwIfAborted();
      // Only the code of errors of others, because their messages may contain secrets.
      const why = error instanceof RampartError ? error.message : codeOf(error);
      return `its credentials cannot be read${why === undefined ? '' : `: ${why}`}`;
    }
    const { bearerToken, ca, cert, key } = credentials ?? {};
    // A trap that names a Secret needs it: without its content nothing is sent.
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

/** Codes of OpenSSL and of Node.js: no agreement about TLS, or a certificate that is not taken. */
function isAboutCertificates(error: unknown): boolean {
  return /^ERR_(SSL|TLS)_|CERT|SIGNATURE/.test(codeOf(error) ?? '');
}
