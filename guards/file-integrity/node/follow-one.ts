/** Watches single objects that belong to a FileIntegrity: the agent may have no right to read others, and does not need them. */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import type { ConfigMap, KubeObject, ResourceType } from '../../../lib/kube/object/object.ts';
import { runReflector } from '../../../lib/kube/cache/reflector.ts';
import type { SharedMetrics } from '../../../lib/kube/controller/shared-metrics.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { type FileIntegrityNodeStatus, names } from '../api.ts';

export interface FollowOptions<T extends KubeObject> {
  readonly client: KubeClient;
  readonly logger: Logger;
  readonly metrics: SharedMetrics | undefined;
  readonly signal: AbortSignal;
  readonly type: ResourceType<T>;
  readonly namespace: string;
  readonly name: string;
  readonly transform: (object: T) => T;
  readonly labelSelector?: string;
  readonly onChange: (object: T | undefined) => void;
}

/** Watches one object by its name. */
export async function followOne<T extends KubeObject>({
  type,
  namespace,
  name,
  metrics,
  onChange,
  ...options
}: FollowOptions<T>): Promise<void> {
  const cache = new IndexedCache<T>({ type, logger: options.logger, parsedLimit: 1 });
  const notify = (): void => onChange(cache.get(`${namespace}/${name}`));
  void cache.synced.then(() => {
    if (options.signal.aborted) return;
    cache.subscribe(notify);
    notify();
  });
  await runReflector({
    ...options,
    cache,
    namespace,
    fieldSelector: `metadata.name=${name}`,
    name: `file-integrity-node-${type.plural}-${namespace}/${name}`,
    metrics: metrics?.reflectors,
  });
}

/** Keeps only the fields of a status that decisions depend on. */
export function slimStatus(status: FileIntegrityNodeStatus): FileIntegrityNodeStatus {
  const { metadata, nodeName, results, sequence, baseline } = status;
  const { name, namespace, uid, resourceVersion, annotations, ownerReferences } = metadata;
  const kept = Object.fromEntries(
    Object.entries({ name, namespace, uid, resourceVersion, annotations, ownerReferences }).filter(
      ([, value]) => value !== undefined,
    ),
  );
  return {
    metadata: kept,
    nodeName,
    results,
    ...(sequence !== undefined && { sequence }),
    ...(baseline && { baseline }),
  };
}

export function slimConfigMap({ metadata, data }: ConfigMap): ConfigMap {
  const { name, namespace, uid, resourceVersion } = metadata;
  const text = data?.[names.confKey];
  return {
    metadata: {
      ...(name && { name }),
      ...(namespace && { namespace }),
      ...(uid && { uid }),
      resourceVersion: resourceVersion ?? '',
    },
    ...(text !== undefined && { data: { [names.confKey]: text } }),
  };
}
