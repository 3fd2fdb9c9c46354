/**
 * Authentication to a registry: Basic, and the tokens of the distribution project (docs.docker.com/registry/spec/auth/token), which are
 * cached until they expire.
 */
import { createHash } from 'node:crypto';

import type { Clock } from '../time/clock.ts';
import type { Answer, Exchange, Security } from './exchange.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import type { Credentials } from './registry.ts';

interface Challenge {
  /** Lower case: `basic`, `bearer`. */
  readonly scheme: string;
  readonly parameters: Readonly<Record<string, string>>;
}

export interface Subject {
  readonly registry: string;
  readonly repository: string;
  readonly credentials: Credentials | undefined;
  readonly security: Security;
  readonly signal?: AbortSignal | undefined;
}

const MAX_TOKEN_BYTES = 64 * 1024;
/** Lifetime of a token that has none in the answer: the default of the specification. */
const DEFAULT_TOKEN_S = 60;
/** Subtracted from the lifetime of a token, for the time in transit. */
const TOKEN_MARGIN_S = 10;
const MAX_KEPT = 1000;

/** Parses a `WWW-Authenticate` header, which may have several challenges. */
export function parseChallenges(header: string): Challenge[] {
  const challenges: { scheme: string; parameters: Record<string, string> }[] = [];
  const token = /[\s,]*([\w!#$%&'*+.^`|~-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+)))?/y;
  for (let match = token.exec(header); match !== null; match = token.exec(header)) {
    const [, name = '', quoted, plain] = match;
    const value = quoted?.replaceAll(/\\(.)/g, '$1') ?? plain;
    if (value === undefined) challenges.push({ scheme: name.toLowerCase(), parameters: {} });
    else {
      const current = challenges.at(-1);
      if (current !== undefined) current.parameters[name.toLowerCase()] = value;
    }
  }
  return challenges;
}

/** Represents the credentials in the keys of caches, without revealing them. */
export function credentialsKey(credentials: Credentials | undefined, salt = ''): string {
  if (credentials === undefined) return 'anonymous';
  const text = JSON.stringify([salt, credentials.username, credentials.password]);
  return createHash('sha256').update(text).digest('hex');
}

interface Kept {
  readonly header: string;
  readonly endsMs: number;
}

/** Finds the `Authorization` header for requests, and remembers what a registry demands. */
export class Authenticator {
  readonly #exchange: Exchange;
  readonly #clock: Clock;
  readonly #kept = new Map<string, Kept>();

  constructor(exchange: Exchange, clock: Clock) {
    this.#exchange = exchange;
    this.#clock = clock;
  }

  /** The header to send with the first request; undefined if nothing valid is known. */
  known(subject: Subject): string | undefined {
    const key = keyOf(subject);
    const kept = this.#kept.get(key);
    if (kept === undefined || kept.endsMs > this.#clock.monotonicMs()) return kept?.header;
    this.#kept.delete(key);
    return undefined;
  }

  /**
   * The header to send after a 401.
   *
   * @throws {RampartError} `PRIVILEGE` if access is denied; {@link ExchangeError}
   */
  async answer(refusal: Answer, subject: Subject): Promise<string> {
    this.#kept.delete(keyOf(subject));
    const challenges = parseChallenges(String(refusal.headers['www-authenticate'] ?? ''));
    const bearer = challenges.find(({ scheme }) => scheme === 'bearer');
    if (bearer !== undefined) return this.#keep(subject, await this.#token(bearer, subject));
    if (!challenges.some(({ scheme }) => scheme === 'basic')) {
      throw refused(subject, 'it requires an unsupported kind of authentication (Basic, Bearer)');
    }
    if (subject.credentials === undefined) throw refused(subject, 'it requires a username and a password');
    return this.#keep(subject, { header: basic(subject.credentials), endsMs: Infinity });
  }

  #keep(subject: Subject, kept: Kept): string {
    if (this.#kept.size >= MAX_KEPT) this.#kept.clear();
    this.#kept.set(keyOf(subject), kept);
    return kept.header;
  }

  async #token({ parameters }: Challenge, subject: Subject): Promise<Kept> {
    const { repository, credentials, signal } = subject;
    const realm = parameters['realm'];
    if (realm === undefined || !URL.canParse(realm)) throw refused(subject, 'it names no token service');
    const url = new URL(realm);
    // Otherwise a man in the middle could redirect passwords anywhere, in cleartext.
    if (url.protocol !== 'https:' && (url.protocol !== 'http:' || subject.security !== 'plain')) {
      throw refused(subject, `it refers to ${url.protocol}//${url.host} for a token, which is not secure`);
    }
    const scope = parameters['scope'] ?? `repository:${repository}:pull`;
    const service = parameters['service'];
    const what = `the token of ${url.host}`;
    const own =
      url.host === subject.registry ? subject.security : url.protocol === 'http:' ? 'plain' : 'verified';
    const question = { maxBytes: MAX_TOKEN_BYTES, what, signal, security: own };
    let answer: Answer;
    if (credentials?.username === '<token>') {
      const form = new URLSearchParams({
        grant_type: 'refresh_token',
        client_id: 'rampart',
        refresh_token: credentials.password,
        scope,
        ...(service !== undefined && { service }),
      });
      const headers = { 'content-type': 'application/x-www-form-urlencoded' };
      answer = await this.#exchange.ask({ ...question, url, method: 'POST', headers, body: String(form) });
    } else {
      if (service !== undefined) url.searchParams.set('service', service);
      url.searchParams.set('scope', scope);
      const headers = credentials && { authorization: basic(credentials) };
      answer = await this.#exchange.ask({ ...question, url, ...(headers && { headers }) });
    }
    if (answer.status !== 200)
      throw refused(subject, `${url.host} refused to issue a token (${answer.status})`);
    return this.#read(answer, subject, url);
  }

  #read(answer: Answer, subject: Subject, url: URL): Kept {
    let body: { token?: unknown; access_token?: unknown; expires_in?: unknown } | null;
    try {
      body = JSON.parse(Buffer.from(answer.body).toString()) as typeof body;
    } catch {
      body = null;
    }
    const token = body?.token ?? body?.access_token;
    if (typeof token !== 'string' || !/^[\w.~+/=-]+$/.test(token)) {
      throw refused(subject, `${url.host} returned no token`);
    }
    const seconds = typeof body?.expires_in === 'number' ? body.expires_in : DEFAULT_TOKEN_S;
    const endsMs = this.#clock.monotonicMs() + Math.max(0, seconds - TOKEN_MARGIN_S) * 1000;
    return { header: `Bearer ${token}`, endsMs };
  }
}

/** The registry denies access with these credentials, or without any. */
export function refused({ registry, repository, credentials }: Subject, why: string): RampartError {
  return new RampartError(errorCodes.PRIVILEGE, {
    what: `${registry} denies access to ${repository}${credentials === undefined ? '' : ` to ${credentials.username}`}`,
    why,
    next:
      credentials === undefined
        ? 'Provide credentials for this registry in a pull secret; some registries also respond like this if something does not exist'
        : 'Check the username, the password and the permissions of that user',
  });
}

function basic({ username, password }: Credentials): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
}

function keyOf({ registry, repository, credentials, security }: Subject): string {
  return `${security} ${registry}/${repository} ${credentialsKey(credentials)}`;
}
