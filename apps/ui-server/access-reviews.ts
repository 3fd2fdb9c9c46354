/** The rights of a user, as the API server reviews them. */
import { createHash } from 'node:crypto';

import type { KubeClient } from '../../lib/kube/client/client.ts';
import { clusterKind, type KubeObject } from '../../lib/kube/object/object.ts';
import type { Clock } from '../../lib/time/clock.ts';
import { SingleFlightCache } from '../../lib/time/single-flight-cache.ts';
import { type AccessQuestion, keyOf } from './rights.ts';
import type { ApiUser } from './token-reviews.ts';

interface SubjectAccessReview extends KubeObject {
  readonly spec: {
    readonly user: string;
    readonly uid?: string;
    readonly groups: readonly string[];
    readonly extra?: ApiUser['extra'];
    readonly resourceAttributes: {
      readonly verb: string;
      readonly group: string;
      readonly resource: string;
      readonly subresource?: string;
      readonly namespace?: string;
    };
  };
  readonly status?: { readonly allowed?: boolean };
}

const subjectAccessReviews = clusterKind<SubjectAccessReview>(
  'authorization.k8s.io',
  'subjectaccessreviews',
  'SubjectAccessReview',
);

/** A revoked right still counts for this long. */
const KEPT_MS = 30_000;
const MAX_KEPT = 20_000;

export class AccessReviews {
  readonly #client: Pick<KubeClient, 'create'>;
  readonly #known: SingleFlightCache<boolean>;
  /** The cache key of each user, computed once: a user with a hundred groups asks thousands of questions for one page. */
  readonly #keys = new WeakMap<ApiUser, string>();

  constructor(client: Pick<KubeClient, 'create'>, clock?: Pick<Clock, 'monotonicMs'>) {
    this.#client = client;
    this.#known = new SingleFlightCache({
      ...{ fresh: { sinceStartMs: KEPT_MS }, maxEntries: MAX_KEPT, ...(clock && { clock }) },
    });
  }

  /** @throws {KubeError} or {RampartError} if the API server does not answer the review */
  may(user: ApiUser, question: AccessQuestion): Promise<boolean> {
    return this.#known.get(`${this.#keyOf(user)} ${keyOf(question)}`, () => this.#ask(user, question));
  }

  #keyOf(user: ApiUser): string {
    let key = this.#keys.get(user);
    if (key === undefined) {
      const { name, uid, groups, extra } = user;
      key = createHash('sha256')
        .update(JSON.stringify([name, uid, groups, extra]))
        .digest('base64url');
      this.#keys.set(user, key);
    }
    return key;
  }

  async #ask({ name, uid, groups, extra }: ApiUser, question: AccessQuestion): Promise<boolean> {
    const { verb, group, resource, subresource, namespace } = question;
    const { status } = await this.#client.create(subjectAccessReviews, {
      metadata: {},
      spec: {
        ...{ user: name, groups, extra },
        ...(uid !== '' && { uid }),
        resourceAttributes: {
          ...{ verb, group, resource },
          ...(subresource !== undefined && { subresource }),
          ...(namespace !== '' && { namespace }),
        },
      },
    });
    return status?.allowed === true;
  }
}
