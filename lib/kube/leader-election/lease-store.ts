/** The storage of a lock: one Lease, which is only changed at the version that was read. */
import type { KubeClient } from '../client/client.ts';
import { orUndefined } from '../client/client-errors.ts';
import { type Lease, leases } from '../object/object.ts';

export interface LeaseStore {
  /** For logs: `kube-system/rampart-operator`. */
  readonly description: string;
  get(signal: AbortSignal): Promise<Lease | undefined>;
  /** Fails when there is one. Takes the `spec`; names the lease itself. */
  create(spec: NonNullable<Lease['spec']>, signal: AbortSignal): Promise<Lease>;
  /** Fails when the lease has moved on from `metadata.resourceVersion`. */
  update(lease: Lease, signal: AbortSignal): Promise<Lease>;
}

/** A Lease of `coordination.k8s.io/v1`, with labels and annotations of its holder, which are asked for with each write. Locks of different names have nothing to do with each other. */
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
