/** Who a client is: tokens and client certificates, wherever they come from and however they change. */
import { readFile } from 'node:fs/promises';

import { errorCodes, messageOf, RampartError } from '../../errors/errors.ts';
import { type Clock, systemClock } from '../../time/clock.ts';

/** The credentials of one request. A new object whenever a part of it changes. Never log it. */
export interface Credential {
  /** The value of the `authorization` header. */
  readonly authorization?: string | undefined;
  /** A client certificate and its key, in PEM. */
  readonly certificate?: { readonly cert: string; readonly key: string } | undefined;
  /** Texts that must not be shown: the bare token or password. */
  readonly secrets: readonly string[];
}

export interface Credentials {
  /**
   * The credentials to send now.
   *
   * @throws {RampartError} without valid credentials; the signal's reason when it aborts.
   */
  current(signal: AbortSignal): Promise<Credential>;
  /** The server did not accept `used`: get another one. Nothing happens when there is a newer one already. */
  invalidate(used: Credential): void;
}

const nobody: Credential = { secrets: [] };

export const anonymous: Credentials = { current: async () => nobody, invalidate: () => undefined };

export type Source = { readonly value: string } | { readonly file: string };

interface StoredCredentialsOptions {
  readonly token?: Source | undefined;
  /** Used if the token's file has never been readable. */
  readonly fallbackToken?: string | undefined;
  readonly certificate?: { readonly cert: Source; readonly key: Source } | undefined;
  readonly clock?: Clock | undefined;
}

/** How long a value read from a file is used. */
const REREAD_MS = 60_000;

/**
 * Tokens and certificates from values and files. Files are read again when they were last read over a minute
 * ago, and after a refusal: the kubelet replaces a pod's token before it expires. If a file becomes
 * unreadable, its last content is used.
 */
export class StoredCredentials implements Credentials {
  readonly #options: StoredCredentialsOptions;
  readonly #clock: Clock;
  readonly #fromFiles: boolean;
  #known: Credential | undefined;
  #readMs = -Infinity;
  #reading: Promise<Credential> | undefined;

  constructor(options: StoredCredentialsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    const { token, certificate } = options;
    this.#fromFiles = [token, certificate?.cert, certificate?.key].some(
      (source) => source && 'file' in source,
    );
  }

  async current(): Promise<Credential> {
    const ageMs = this.#clock.monotonicMs() - this.#readMs;
    if (this.#known !== undefined && (!this.#fromFiles || ageMs < REREAD_MS)) return this.#known;
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  invalidate(used: Credential): void {
    if (used === this.#known) this.#readMs = -Infinity;
  }

  async #read(): Promise<Credential> {
    const { token, fallbackToken, certificate } = this.#options;
    let next: Credential;
    try {
      const bearer = token && (await readToken(token, fallbackToken));
      next = {
        authorization: bearer === undefined ? undefined : `Bearer ${bearer}`,
        certificate: certificate && {
          cert: await readSource(certificate.cert, 'client certificate'),
          key: await readSource(certificate.key, 'client key'),
        },
        secrets: bearer === undefined ? [] : [bearer],
      };
    } catch (error) {
      if (this.#known === undefined) throw error;
      next = this.#known;
    }
    this.#readMs = this.#clock.monotonicMs();
    // The same object for the same content: connections that are open stay in use.
    if (this.#known === undefined || !same(this.#known, next)) this.#known = next;
    return this.#known;
  }
}

function same(a: Credential, b: Credential): boolean {
  return (
    a.authorization === b.authorization &&
    a.certificate?.cert === b.certificate?.cert &&
    a.certificate?.key === b.certificate?.key
  );
}

async function readToken(source: Source, fallback: string | undefined): Promise<string> {
  try {
    return checkToken((await readSource(source, 'token')).trim(), source);
  } catch (error) {
    if (fallback !== undefined) return checkToken(fallback, { value: fallback });
    throw error;
  }
}

/** @throws {RampartError} `INPUT`, without the token, for one that cannot be sent in a header. */
function checkToken(token: string, source: Source): string {
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new RampartError(errorCodes.INPUT, {
    what: 'file' in source ? `token in ${source.file}` : 'token for the Kubernetes API',
    why: 'it is empty or contains characters that are invalid in a token',
  });
}

async function readSource(source: Source, what: string): Promise<string> {
  if ('value' in source) return source.value;
  try {
    return await readFile(source.file, 'utf8');
  } catch (error) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot read the ${what} for the Kubernetes API from ${source.file}`,
      why: messageOf(error),
      cause: error,
    });
  }
}

/** A user name and a password, as HTTP Basic. The API server itself no longer takes these; proxies do. */
export function basicCredentials(username: string, password: string): Credentials {
  const encoded = Buffer.from(`${username}:${password}`).toString('base64');
  const credential: Credential = { authorization: `Basic ${encoded}`, secrets: [password, encoded] };
  return { current: async () => credential, invalidate: () => undefined };
}
