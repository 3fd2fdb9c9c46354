/** Which agent of a kernel is its loader: the holder of a lease that is named after the kernel. */
import { systemNamespace } from '../../../guard/guard.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { LeadershipLostError, runElection } from '../../../lib/kube/leader-election/leader-election.ts';
import { leaseStore } from '../../../lib/kube/leader-election/lease-store.ts';
import type { Lease } from '../../../lib/kube/object/object.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { aborted } from '../../../lib/time/abort.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import type { Loader } from './loader.ts';
import { loaderLeaseLabels, loaderLeaseStore } from './loader-lease.ts';

export interface LoaderElectionOptions {
  readonly client: KubeClient;
  readonly kernelId: string;
  /** Cache of `loaderLeaseQuery`. */
  readonly cache: IndexedCache<Lease>;
  /** Must be unique to this process. */
  readonly identity: string;
  readonly loader: Pick<Loader, 'setActive'>;
  /** Called with the identity of each holder that is seen, which may be this process. */
  readonly onHolder?: (identity: string) => void;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly clock?: Clock;
}

/**
 * How long a kernel may be without a loader: a successor first sees a change of the lease up to one period after its
 * last renewal, waits for the duration of the lease, and tries again within another period. That is 10 s + 2 * 2.4 s,
 * below the allowed 15 s.
 */
export const loaderLease = { leaseDurationSeconds: 10, renewDeadlineMs: 7000, retryPeriodMs: 2000 } as const;

/**
 * Keeps the loader active while this process holds the lease of its kernel; runs until `signal` aborts.
 *
 * A loader whose lease cannot be renewed goes on until it SEES another holder: two loaders on one kernel report each
 * access twice, which receivers have to expect anyway, whereas without a loader accesses would be missed. If the API is
 * unreachable, no other candidate can take over either. So the loader ends in two cases only: another process holds the
 * lease, or `signal` aborts.
 */
export async function runLoaderElection(options: LoaderElectionOptions): Promise<void> {
  const { client, kernelId, cache, identity, loader, signal, logger, clock = systemClock } = options;
  const target = { namespace: systemNamespace, name: kernelId };
  const store = leaseStore(client, target, () => ({ labels: loaderLeaseLabels(kernelId) }));
  let holder = '';
  try {
    await runElection({
      ...loaderLease,
      lock: loaderLeaseStore({ store, cache, identity, clock }),
      identity,
      signal,
      logger,
      clock,
      onNewLeader: (seen) => {
        holder = seen;
        options.onHolder?.(seen);
        if (seen === identity) return;
        logger.info({ kernel: kernelId, holder: seen }, 'another agent is the loader of this kernel');
        loader.setActive(false);
      },
      lead: async (term) => {
        loader.setActive(true);
        await aborted(term);
        if (term.reason instanceof LeadershipLostError && holder === identity && !signal.aborted) {
          logger.warn(
            { kernel: kernelId, err: term.reason },
            'cannot renew the lease; alerts continue until another loader takes over',
          );
          return;
        }
        loader.setActive(false);
      },
    });
  } finally {
    loader.setActive(false);
  }
}
