/**
 * The lease of a kernel, whose holder is its loader.
 *
 * Usually a kernel has only one agent, and no other needs to know that it is alive. So the holder renews its lease only
 * while another agent is a candidate: a candidate writes its name on the lease, which the holder watches. From then on
 * it is an election like any other. Once a minute, the holder removes the name. A candidate that still exists writes it
 * again; otherwise the holder stops renewing.
 *
 * A candidate measures from its own first write, so it takes over within the usual time also from a holder that ended
 * while it was not renewing. A holder whose watch is broken does not see the name: a candidate then takes over, and
 * both are loaders until the old holder sees that. See runLoaderElection for why two are better than none.
 */
import { kernelLeaseLabel } from '../../../guard/agent-lease-names.ts';
import { systemNamespace } from '../../../guard/guard.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import type { CacheQuery } from '../../../lib/kube/cache/shared-caches.ts';
import { isConflict, isNotFound } from '../../../lib/kube/client/client-errors.ts';
import type { LeaseStore } from '../../../lib/kube/leader-election/lease-store.ts';
import { type Lease, leases, objectKey } from '../../../lib/kube/object/object.ts';
import type { Clock } from '../../../lib/time/clock.ts';

/** Annotation with the identity of a candidate: an agent that could replace the holder. */
const candidateAnnotation = 'rampart.dev/candidate';
const ASKED_MS = 60_000;

export function loaderLeaseQuery(kernelId: string): CacheQuery<Lease> {
  return { type: leases, namespace: systemNamespace, fieldSelector: `metadata.name=${kernelId}` };
}

/** The labels of the lease of a kernel. */
export function loaderLeaseLabels(kernelId: string): Readonly<Record<string, string>> {
  return { [kernelLeaseLabel]: kernelId };
}

interface LoaderLeaseOptions {
  readonly store: LeaseStore;
  /** Cache of {@link loaderLeaseQuery}. */
  readonly cache: Pick<IndexedCache<Lease>, 'get' | 'isSynced' | 'put'>;
  readonly identity: string;
  readonly clock: Clock;
}

/** Wraps `store` for an election, and leaves out renewals that no candidate needs. */
export function loaderLeaseStore({ store, cache, identity, clock }: LoaderLeaseOptions): LeaseStore {
  let asked = { by: '', sinceMs: 0 };
  const keep = (lease: Lease): Lease => {
    cache.put(lease);
    return lease;
  };
  const isAtRest = (lease: Lease): boolean => {
    const seen = cache.isSynced ? cache.get(objectKey(lease)) : undefined;
    return (
      seen?.metadata.resourceVersion === lease.metadata.resourceVersion &&
      holderOf(seen) === identity &&
      holderOf(lease) === identity &&
      candidateOf(seen) === ''
    );
  };
  return {
    description: store.description,
    async get(signal) {
      const lease = await store.get(signal);
      if (lease === undefined || ['', identity].includes(holderOf(lease)) || candidateOf(lease) !== '')
        return lease;
      try {
        return keep(await store.update(withCandidate(lease, identity), signal));
      } catch (error) {
        // The holder or another candidate wrote first; the next attempt sees that.
        if (isConflict(error) || isNotFound(error)) return lease;
        throw error;
      }
    },
    create: async (spec, signal) => keep(await store.create(spec, signal)),
    async update(lease, signal) {
      if (isAtRest(lease)) return lease;
      const by = candidateOf(lease);
      const nowMs = clock.monotonicMs();
      if (by !== asked.by) asked = { by, sinceMs: nowMs };
      const isOver = by === identity || nowMs - asked.sinceMs >= ASKED_MS;
      const written = keep(await store.update(isOver ? withCandidate(lease, undefined) : lease, signal));
      if (isOver) asked = { by: '', sinceMs: 0 };
      return written;
    },
  };
}

function holderOf(lease: Lease | undefined): string {
  return lease?.spec?.holderIdentity ?? '';
}

function candidateOf(lease: Lease | undefined): string {
  return lease?.metadata.annotations?.[candidateAnnotation] ?? '';
}

function withCandidate(lease: Lease, identity: string | undefined): Lease {
  const { [candidateAnnotation]: _before, ...annotations } = lease.metadata.annotations ?? {};
  return {
    ...lease,
    metadata: {
      ...lease.metadata,
      annotations: { ...annotations, ...(identity !== undefined && { [candidateAnnotation]: identity }) },
    },
  };
}
