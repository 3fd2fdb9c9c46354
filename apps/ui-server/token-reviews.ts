/** Which user a token belongs to, according to the API server. */
import { createHash } from 'node:crypto';

import type { KubeClient } from '../../lib/kube/client/client.ts';
import { clusterKind, type KubeObject } from '../../lib/kube/object/object.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import type { Clock } from '../../lib/time/clock.ts';
import { SingleFlightCache } from '../../lib/time/single-flight-cache.ts';

/** A user as the API server knows them: https://kubernetes.io/docs/reference/access-authn-authz/authentication/ */
export interface ApiUser {
  readonly name: string;
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

interface TokenReview extends KubeObject {
  readonly spec: { readonly token: string };
  readonly status?: {
    readonly authenticated?: boolean;
    readonly user?: {
      readonly username?: string;
      readonly uid?: string;
      readonly groups?: readonly string[];
      readonly extra?: Readonly<Record<string, readonly string[]>>;
    };
  };
}

const tokenReviews = clusterKind<TokenReview>('authentication.k8s.io', 'tokenreviews', 'TokenReview');

/** A revoked token still works for this long. */
const KEPT_MS = 30_000;
const MAX_KEPT = 1_000;
/** Limit of concurrent reviews: a client that sends invalid tokens must not overload the API server. */
const MAX_AT_ONCE = 32;

export class TokenReviews {
  readonly #client: Pick<KubeClient, 'create'>;
  readonly #known: SingleFlightCache<ApiUser | undefined>;
  #asking = 0;

  constructor(client: Pick<KubeClient, 'create'>, clock?: Pick<Clock, 'monotonicMs'>) {
    this.#client = client;
    this.#known = new SingleFlightCache({
      ...{ fresh: { sinceStartMs: KEPT_MS }, maxEntries: MAX_KEPT, ...(clock && { clock }) },
    });
  }

  /**
   * @returns undefined for an invalid token.
   * @throws {KubeError} or {RampartError} `API_UNREACHABLE`, `LIMIT` if the token cannot be checked
   */
  userOf(token: string): Promise<ApiUser | undefined> {
    // Tokens themselves are not kept.
    const key = createHash('sha256').update(token).digest('base64url');
    return this.#known.get(key, () => this.#ask(token));
  }

  async #ask(token: string): Promise<ApiUser | undefined> {
    if (this.#asking >= MAX_AT_ONCE) {
      throw new RampartError(errorCodes.LIMIT, {
        what: 'too many tokens are being looked up',
        next: 'Try again',
      });
    }
    this.#asking++;
    try {
      const { status } = await this.#client.create(tokenReviews, { metadata: {}, spec: { token } });
      const { username = '', uid = '', groups = [], extra = {} } = status?.user ?? {};
      if (status?.authenticated !== true || username === '' || username === 'system:anonymous')
        return undefined;
      return { name: username, uid, groups, extra };
    } finally {
      this.#asking--;
    }
  }
}
