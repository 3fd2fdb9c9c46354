/** The storage of a lock: one Lease, which is only changed at the version that was read. */
import type { KubeClient } from '../client/client.ts';
import { orUndefined } from '../client/client-errors.ts';
import { type Lease, leases } from '../object/object.ts';

export interface LeaseStore {
  /** For logs: `kube-system/rampart-operator`. */
  readonly description: string;
  get(signal: AbortSignal): Promise<Lease | undefined>;
  /** Creates the lease, under the name of this store. Fails if it exists. */
  create(spec: NonNullable<Lease['spec']>, signal: AbortSignal): Promise<Lease>;
  /** Fails if the lease no longer has this `metadata.resourceVersion`. */
  update(lease: Lease, signal: AbortSignal): Promise<Lease>;
}

/**
 * A Lease of `coordination.k8s.io/v1`. Locks with different names are independent.
 *
 * @param own - The holder's labels and annotations, read at each write.
 */
export function leaseStore(
  client: KubeClient,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  own: () => Pick<Lease['metadata'], 'labels' | 'annotations'> = () => ({}),
): LeaseStore {
  const withOwn = (metadata: Lease['metadata']): Lease['metadata'] => {
    const { labels, annotations } = own();
    return {
      ...metadata,
      ...(labels && { labels: { ...metadata.labels, ...labels } }),
      ...(annotations && { annotations: { ...metadata.annotations, ...annotations } }),
    };
  };
  return {
    description: `${namespace}/${name}`,
    get: (signal) => orUndefined(client.get(leases, { namespace, name }, { signal })),
    create: (spec, signal) =>
      client.create(leases, { metadata: withOwn({ namespace, name }), spec }, { signal }),
    update: (lease, signal) =>
      client.update(leases, { ...lease, metadata: withOwn(lease.metadata) }, { signal }),
  };
}
