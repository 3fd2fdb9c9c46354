/** The token of a service account, requested from the API and kept in memory. */
import { errorCodes, messageOf, RampartError } from '../../errors/errors.ts';
import { orAborted } from '../../time/abort.ts';
import { type Clock, systemClock } from '../../time/clock.ts';
import type { Credential, Credentials } from '../access/credentials.ts';
import { type KubeObject, namespacedKind } from '../object/object.ts';
import type { KubeClient } from './client.ts';

/** The shortest lifetime that the API issues a token for. */
const EXPIRATION_SECONDS = 600;
/** How long a failure is returned before the next request: callers may ask once for each of many objects. */
const FAILURE_MS = 5000;

interface TokenRequest extends KubeObject {
  readonly spec: { readonly expirationSeconds: number };
  readonly status?: { readonly token: string };
}

const serviceAccounts = namespacedKind<TokenRequest>('', 'serviceaccounts', 'ServiceAccount');

export interface ServiceAccountName {
  readonly namespace: string;
  readonly name: string;
}

type Requester = Pick<KubeClient, 'create'>;

/** Renewed when half of its time is over. The requester needs the right to create `serviceaccounts/token`. */
export class AccountToken implements Credentials {
  readonly #requester: Requester;
  readonly #account: ServiceAccountName;
  readonly #clock: Clock;
  /** The last request, or its failure, and the time from which a new request is made. */
  #latest: { readonly token: Promise<Credential>; untilMs: number } | undefined;
  /** The last token and its expiry: used if it cannot be renewed. */
  #usable: { readonly token: Credential; readonly untilMs: number } | undefined;

  constructor(requester: Requester, account: ServiceAccountName, clock: Clock = systemClock) {
    this.#requester = requester;
    this.#account = account;
    this.#clock = clock;
  }

  /** @throws {RampartError} `NOT_FOUND`, never a `KubeError`: that would be taken for the answer to what the token is for */
  async current(signal?: AbortSignal): Promise<Credential> {
    const nowMs = this.#clock.monotonicMs();
    if (this.#latest === undefined || this.#latest.untilMs <= nowMs) this.#request();
    try {
      return await orAborted(this.#latest?.token as Promise<Credential>, signal);
    } catch (error) {
      signal?.throwIfAborted();
      if (this.#usable !== undefined && this.#usable.untilMs > nowMs) return this.#usable.token;
      throw error;
    }
  }

  invalidate(used: Credential): void {
    if (used !== this.#usable?.token) return;
    this.#latest = this.#usable = undefined;
  }

  #request(): void {
    const latest = { token: this.#requested(), untilMs: Infinity };
    this.#latest = latest;
    const nowMs = (): number => this.#clock.monotonicMs();
    latest.token.then(
      (token) => {
        latest.untilMs = nowMs() + EXPIRATION_SECONDS * 500;
        this.#usable = { token, untilMs: nowMs() + EXPIRATION_SECONDS * 1000 };
      },
      () => void (latest.untilMs = nowMs() + FAILURE_MS),
    );
  }

  async #requested(): Promise<Credential> {
    const { namespace, name } = this.#account;
    try {
      const request: TokenRequest = {
        ...{ apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest' },
        metadata: { namespace, name },
        spec: { expirationSeconds: EXPIRATION_SECONDS },
      };
      const { status } = await this.#requester.create(serviceAccounts, request, { subresource: 'token' });
      if (status === undefined) throw new Error('the response has no token');
      return { authorization: `Bearer ${status.token}`, secrets: [status.token] };
    } catch (error) {
      throw new RampartError(errorCodes.NOT_FOUND, {
        what: `there is no token of the service account ${namespace}/${name}`,
        why: messageOf(error),
        cause: error,
      });
    }
  }
}
