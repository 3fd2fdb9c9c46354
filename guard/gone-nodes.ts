/** Deletes objects that were written for nodes that no longer exist, even without a garbage collector. */
import { deleteSame } from '../lib/kube/client/delete-same.ts';
import { labelValue } from '../lib/kube/selectors/label-names.ts';
import type { KubeClient } from '../lib/kube/client/client.ts';
import { orUndefined } from '../lib/kube/client/client-errors.ts';
import {
  type ControllerContext,
  done,
  type Result,
  runController,
} from '../lib/kube/controller/controller.ts';
import { isDeleting, removeFinalizer } from '../lib/kube/controller/finalizers.ts';
import type { IndexedCache } from '../lib/kube/cache/indexed-cache.ts';
import { keyQueue } from '../lib/kube/controller/key-queue.ts';
import { type KubeObject, type Node, nodes as nodeType } from '../lib/kube/object/object.ts';

/** Objects of a kind, each of which belongs to one node. */
export interface ObjectsOfNodes<T extends KubeObject> {
  /** Has an index `node`, whose values are the results of {@link nodeOf}. */
  readonly cache: IndexedCache<T>;
  /**
   * The name of the object's node, either as it is or in the form that `labelValue()` gives it (with a digest
   * if the name is too long for a label).
   */
  nodeOf(object: T): string;
  /** Whether this finalizer is one that only the node's agent would remove. */
  isHold?(finalizer: string): boolean;
}

interface GoneNodesOptions<T extends KubeObject> extends ControllerContext {
  /** The controller's name. */
  readonly name: string;
  readonly nodes: IndexedCache<Node>;
  readonly kinds: readonly ObjectsOfNodes<T>[];
}

const WORKERS = 4;

/** Runs until `signal` aborts; the caches must be synced. */
export async function deleteObjectsOfGoneNodes<T extends KubeObject>(
  options: GoneNodesOptions<T>,
): Promise<void> {
  const { client, nodes, kinds, logger } = options;
  const labels = new Set([...nodes.keys()].map(labelValue));
  // A single machine may have no Node objects. Then nothing is known about nodes, and none counts as gone.
  const isGone = (node: string): boolean => nodes.size > 0 && !labels.has(labelValue(node));
  using queue = keyQueue();
  using stack = new DisposableStack();
  const addOf = (node: string): void => {
    if (!isGone(node)) return;
    for (const { cache } of kinds)
      for (const key of cache.keysByIndex('node', node)) queue.add(`${cache.type.plural} ${key}`);
  };
  const addAll = (): void => {
    for (const { cache } of kinds) for (const node of cache.indexValues('node')) addOf(node);
  };
  stack.use(
    nodes.subscribe(({ type, key }) => {
      if (type === 'deleted') labels.delete(labelValue(key));
      else labels.add(labelValue(key));
      // Also after the first Node has appeared: as long as the API has no Nodes, no node counts as gone.
      if (type === 'deleted' || nodes.size === 1) addAll();
    }),
  );
  for (const { cache, nodeOf } of kinds) stack.use(cache.subscribe(({ object }) => addOf(nodeOf(object))));
  addAll();
  const reconcile = async (id: string, signal: AbortSignal): Promise<Result> => {
    const [plural, key = ''] = id.split(' ');
    const kind = kinds.find(({ cache }) => cache.type.plural === plural);
    const object = kind?.cache.get(key);
    if (kind === undefined || object === undefined) return done;
    const node = kind.nodeOf(object);
    if (!isGone(node) || (await nodeExists(client, node, signal))) return done;
    const { type } = kind.cache;
    const holds = object.metadata.finalizers?.filter((one) => kind.isHold?.(one)) ?? [];
    await removeFinalizer(client, type, object, holds, { signal });
    if (isDeleting(object) || (await deleteSame(client, type, object, { signal })))
      logger.info({ kind: type.kind, object: key, node }, 'deleted an object of a removed node');
    return done;
  };
  await runController({ ...options, queue, reconcile, workers: WORKERS });
}

/**
 * Asks the API itself, since the cache may not know a new node whose agent has already written. False for the digest of a long name, since
 * no Node is named like that.
 */
export async function nodeExists(client: KubeClient, name: string, signal: AbortSignal): Promise<boolean> {
  return (await orUndefined(client.get(nodeType, { name }, { signal }))) !== undefined;
}
