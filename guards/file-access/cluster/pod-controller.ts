/**
 * Deletes KiveData that no agent will delete: of pods that are gone or finished, and of traps, nodes and kernels that are gone. It runs
 * once per cluster. The agent of a node deletes its own KiveData, and sooner; this is for agents that are gone, or were gone at the time.
 * New pods need nothing here: the agent of their node follows them itself.
 */
import { deleteSame } from '../../../lib/kube/client/delete-same.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { systemClock } from '../../../lib/time/clock.ts';
import {
  type ControllerContext,
  done,
  type Reconcile,
  requeueAfter,
  type Result,
  runController,
} from '../../../lib/kube/controller/controller.ts';
import { hasFinalizer, isDeleting, removeFinalizer } from '../../../lib/kube/controller/finalizers.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import { whenSynced } from '../../../lib/kube/controller/run-parts.ts';
import { type KiveData, kiveDataType, type KivePolicy } from '../api.ts';
import { type Node, nodes as nodeType, type Pod, pods as podType } from '../../../lib/kube/object/object.ts';
import { policyKeyOf } from '../caches.ts';
import { dataHolds, isInScope, nodeOf, podOf } from '../kive-data.ts';
import { defaultScope, type PolicyScope } from '../policy/policy-scope.ts';
import { type ClusterView, type StaleReason, staleReason } from './stale-data.ts';

export interface PodControllerOptions {
  /** Has the indexes `pod`, `node`, `policy`. */
  readonly data: IndexedCache<KiveData>;
  readonly pods: IndexedCache<Pod>;
  readonly nodes: IndexedCache<Node>;
  /** Has the index `trap`. */
  readonly policies: IndexedCache<KivePolicy>;
  readonly policyScope?: PolicyScope | undefined;
  /**
   * How long a trap, a node or a kernel has to be gone, in ms. Until then an agent should act first: it changes an object in place when its
   * policy is edited, or comes up again with its node. Default: 10 s.
   */
  readonly graceMs?: number | undefined;
  /** After this time, in ms, a finalizer that no loader has removed is removed here. Default: 30 s. */
  readonly releaseMs?: number | undefined;
}

/**
 * Reasons that have to last for `graceMs`, since an agent may be working on the object. The other reasons mean that the pod is gone for
 * good.
 */
const graceful: ReadonlySet<StaleReason> = new Set([
  'TrapGone',
  'OutsideNamespace',
  'NodeGone',
  'KernelGone',
]);
const WORKERS = 4;
const AGAIN_MS = 1000;

/** Runs until `signal` aborts. The caller fills the caches. @throws {RampartError} `INPUT` for invalid times. */
export async function runPodController(
  context: ControllerContext,
  options: PodControllerOptions,
): Promise<void> {
  const { data, pods, nodes, policies } = options;
  const { reconcile } = new PodController(context, options);
  using queue = keyQueue();
  using stack = new DisposableStack();
  const addAll = (index: string, value: string): void => {
    for (const key of data.keysByIndex(index, value)) queue.add(key);
  };
  // Waits in this order: when the last cache has synced, those that its objects refer to must not be empty.
  await whenSynced([data, pods, nodes, policies], context.signal, async () => {
    stack.use(data.subscribe(({ key }) => queue.add(key)));
    stack.use(pods.subscribe(({ key }) => addAll('pod', key)));
    stack.use(nodes.subscribe(({ object }) => addAll('node', object.metadata.name ?? '')));
    stack.use(policies.subscribe(({ key }) => addAll('policy', key)));
    for (const key of data.keys()) queue.add(key, { level: 1 });
    await runController({ ...context, name: 'file-access-stale-data', queue, reconcile, workers: WORKERS });
  });
}

class PodController {
  readonly #options: ControllerContext & PodControllerOptions;
  readonly #view: ClusterView;
  /** Since when an object has been stale, or being deleted; `what` is the reason. */
  readonly #since = new Map<string, { readonly what: string; readonly ms: number }>();

  constructor(context: ControllerContext, options: PodControllerOptions) {
    const { pods, nodes, policies, policyScope = defaultScope } = options;
    this.#options = { ...context, ...options };
    this.#view = {
      pod: (namespace, name) => pods.get(`${namespace}/${name}`),
      bootId: (name) => {
        // A single machine may have no Node objects. Then it is unknown which nodes exist, and their boot IDs are unknown too.
        if (nodes.size === 0) return '';
        const node = nodes.get(name);
        return node === undefined ? undefined : (node.status?.nodeInfo?.bootID ?? '');
      },
      hasTrap: (id) => policies.keysByIndex('trap', id).length > 0,
      mayMatch: (data) => isInScope(data, policyScope),
    };
  }

  readonly reconcile: Reconcile<string> = async (key, signal) => {
    const data = this.#options.data.get(key);
    if (data === undefined) {
      this.#since.delete(key);
      return done;
    }
    if (isDeleting(data)) return await this.#release(key, data, signal);
    const reason = staleReason(data, this.#view);
    if (reason === undefined) {
      this.#since.delete(key);
      return done;
    }
    const leftMs = graceful.has(reason) ? this.#leftMs(key, reason, this.#options.graceMs ?? 10_000) : 0;
    if (leftMs > 0) return requeueAfter(leftMs);
    if (!(await this.#confirm(reason, data, signal))) return requeueAfter(AGAIN_MS);
    return await this.#delete(key, data, reason, signal);
  };

  async #delete(key: string, data: KiveData, reason: StaleReason, signal: AbortSignal): Promise<Result> {
    const { client, logger } = this.#options;
    // If the object was changed meanwhile, its new state has to be checked.
    if (!(await deleteSame(client, kiveDataType, data, { unchanged: true, signal })))
      return requeueAfter(AGAIN_MS);
    logger.info({ data: key, policy: policyKeyOf(data), reason }, 'deleted an orphaned KiveData');
    if (reason === 'NodeGone' || reason === 'KernelGone') {
      await removeFinalizer(client, kiveDataType, data, dataHolds, { signal });
    }
    return done;
  }

  /** Removes the finalizer on behalf of a loader that is gone. */
  async #release(key: string, data: KiveData, signal: AbortSignal): Promise<Result> {
    if (!hasFinalizer(data, dataHolds)) return done;
    const reason = staleReason(data, this.#view);
    const orphan = reason === 'NodeGone' || reason === 'KernelGone';
    const { releaseMs = 30_000, graceMs = 10_000 } = this.#options;
    const leftMs = this.#leftMs(key, 'deleting', orphan ? Math.min(graceMs, releaseMs) : releaseMs);
    if (leftMs > 0) return requeueAfter(leftMs);
    this.#options.logger.info(
      { data: key, node: nodeOf(data) },
      'no loader responded: removed the finalizer',
    );
    await removeFinalizer(this.#options.client, kiveDataType, data, dataHolds, { signal });
    return done;
  }

  /** How much of the time `ms` is left, counted from when `what` was first noticed for this object. */
  #leftMs(key: string, what: string, ms: number): number {
    const now = systemClock.monotonicMs();
    const known = this.#since.get(key);
    if (known?.what === what) return known.ms + ms - now;
    this.#since.set(key, { what, ms: now });
    return ms;
  }

  /** Asks the API itself, since one cache may lag behind another: an object that is deleted by mistake leaves a file unwatched. */
  async #confirm(reason: StaleReason, data: KiveData, signal: AbortSignal): Promise<boolean> {
    const { client } = this.#options;
    const view = { ...this.#view };
    if (reason === 'PodGone' || reason === 'PodOver' || reason === 'PodReplaced') {
      const { namespace, name } = podOf(data);
      if (namespace === '' || name === '') return true;
      const pod = await orUndefined(client.get(podType, { namespace, name }, { signal }));
      view.pod = () => pod;
    } else if (reason === 'NodeGone' || reason === 'KernelGone') {
      const name = nodeOf(data);
      if (name === '') return true;
      const node = await orUndefined(client.get(nodeType, { name }, { signal }));
      view.bootId = () => (node === undefined ? undefined : (node.status?.nodeInfo?.bootID ?? ''));
    }
    return staleReason(data, view) !== undefined;
  }
}
