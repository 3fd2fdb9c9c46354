/** Deletes what nodes that are gone have said, also where nobody collects garbage. */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { deleteSame } from '../../../lib/kube/client/delete-same.ts';
import { done, runController } from '../../../lib/kube/controller/controller.ts';
import type { ControllerMetrics } from '../../../lib/kube/controller/controller-metrics.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import { type Node, nodes as nodeType } from '../../../lib/kube/object/object.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { kiveDataNamespace as namespace, type KiveNodeStatus, kiveNodeStatusType } from '../api.ts';

interface GoneStatusesOptions {
  readonly client: KubeClient;
  readonly statuses: IndexedCache<KiveNodeStatus>;
  readonly nodes: IndexedCache<Node>;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly metrics?: ControllerMetrics | undefined;
}

/** Runs until `signal` aborts; the caches are synced. */
export async function deleteGoneStatuses(options: GoneStatusesOptions): Promise<void> {
  const { client, statuses, nodes, signal, logger, metrics } = options;
  using queue = keyQueue();
  using stack = new DisposableStack();
  // A single machine has no Node objects.
  const isGone = (name: string): boolean => nodes.size > 0 && !nodes.has(name);
  const addAll = (): void => {
    for (const key of statuses.keys()) queue.add(key.slice(namespace.length + 1), { level: 1 });
  };
  stack.use(
    nodes.subscribe(({ type, key }) => {
      if (type === 'deleted') queue.add(key);
      // Of the first one nothing was said before.
      else if (nodes.size === 1) addAll();
    }),
  );
  stack.use(statuses.subscribe(({ object }) => queue.add(object.metadata.name ?? '')));
  addAll();
  await runController({
    name: 'file-access-gone-statuses',
    queue,
    reconcile: async (name, ofKey) => {
      const status = statuses.get(`${namespace}/${name}`);
      if (status === undefined || !isGone(name)) return done;
      // One cache may be behind the other.
      if ((await orUndefined(client.get(nodeType, { name }, { signal: ofKey }))) !== undefined) return done;
      const deleted = await deleteSame(client, kiveNodeStatusType, status, { signal: ofKey });
      if (deleted) logger.info({ node: name }, 'deleted the KiveNodeStatus of a removed node');
      return done;
    },
    signal,
    logger,
    metrics,
  });
}
