/** Deletes the per-node objects of nodes that are gone: nobody else takes off what their agents hold them by. */
import { deleteSame } from '../../../lib/kube/client/delete-same.ts';
import { labelValue } from '../../../lib/kube/selectors/label-names.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { done, type Result, runController } from '../../../lib/kube/controller/controller.ts';
import type { ControllerMetrics } from '../../../lib/kube/controller/controller-metrics.ts';
import { isDeleting, removeFinalizer } from '../../../lib/kube/controller/finalizers.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import { type Node, nodes as nodeType } from '../../../lib/kube/object/object.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { type NodeObject, nodeTypes } from '../api.ts';
import { isNodeFinalizer } from '../engine/names.ts';
import { nodeOf } from '../engine/parent-condition.ts';
import type { Scope } from '../spec-schema.ts';

interface GoneNodesOptions {
  readonly client: KubeClient;
  readonly objects: Readonly<Record<Scope, IndexedCache<NodeObject>>>;
  readonly nodes: IndexedCache<Node>;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly metrics?: ControllerMetrics | undefined;
}

const WORKERS = 4;

/** Runs until `signal` aborts; the caches are synced. */
export async function deleteObjectsOfGoneNodes(options: GoneNodesOptions): Promise<void> {
  const { client, objects, nodes, signal, logger, metrics } = options;
  const scopes = ['Cluster', 'Namespaced'] as const;
  const isGone = (object: NodeObject): boolean => nodes.size > 0 && !labels.has(nodeOf(object));
  const labels = new Set([...nodes.keys()].map(labelValue));
  using queue = keyQueue();
  using stack = new DisposableStack();
  const addAll = (): void => {
    for (const scope of scopes)
      for (const [key, object] of entriesOf(objects[scope])) if (isGone(object)) queue.add(`${scope} ${key}`);
  };
  stack.use(
    nodes.subscribe(({ type, key }) => {
      if (type === 'deleted') labels.delete(labelValue(key));
      else labels.add(labelValue(key));
      // Of the first one, too: without any Node nothing is said about nodes.
      if (type === 'deleted' || nodes.size === 1) addAll();
    }),
  );
  for (const scope of scopes) {
    stack.use(
      objects[scope].subscribe(({ type, key, object }) => {
        if (type !== 'deleted' && isGone(object)) queue.add(`${scope} ${key}`);
      }),
    );
  }
  addAll();
  const reconcile = async (id: string, ofKey: AbortSignal): Promise<Result> => {
    const scope = id.startsWith('Cluster ') ? 'Cluster' : 'Namespaced';
    const object = objects[scope].get(id.slice(id.indexOf(' ') + 1));
    if (object === undefined || !isGone(object)) return done;
    // The cache may be behind the agent of a new node. A label that is no name of a node is a digest of one.
    const node = nodeOf(object);
    if ((await orUndefined(client.get(nodeType, { name: node }, { signal: ofKey }))) !== undefined)
      return done;
    const { name, finalizers = [] } = object.metadata;
    const type = nodeTypes[scope];
    await removeFinalizer(client, type, object, finalizers.filter(isNodeFinalizer), { signal: ofKey });
    if (!isDeleting(object)) await deleteSame(client, type, object, { signal: ofKey });
    logger.info({ object: name, node }, 'deleted an object of a removed node');
    return done;
  };
  await runController({
    ...{ name: 'bpf-programs-gone-nodes', queue, reconcile, signal, workers: WORKERS, logger, metrics },
  });
}

function* entriesOf(cache: IndexedCache<NodeObject>): Iterable<[string, NodeObject]> {
  for (const key of cache.keys()) {
    const object = cache.get(key);
    if (object !== undefined) yield [key, object];
  }
}
