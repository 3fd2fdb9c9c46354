/** A kind of object that a scan follows. */
import type { IndexedCache } from '../../../shared/kube/indexed-cache.ts';
import type { KubeObject } from '../../../shared/kube/object.ts';
import type { OpenPolicy } from '../policies/open-policy.ts';
import type { ServedKind } from './served-kinds.ts';

/** A kind that some policy applies to. */
export interface FollowedKind {
  readonly kind: ServedKind;
  readonly cache: IndexedCache<KubeObject>;
  policies: readonly OpenPolicy[];
}
