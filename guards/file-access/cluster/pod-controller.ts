/**
 * Deletes the KiveData without an agent: of pods that are gone or finished, of gone traps, nodes and kernels.
 * One per cluster. The agent of the node does the same for its own, and quicker; this is for agents that are
 * gone, or were at that time. A pod that is created needs nothing: its node's agent follows its pods itself.
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
  /** With the indexes `pod`, `node`, `policy`. */
  readonly data: IndexedCache<KiveData>;
  readonly pods: IndexedCache<Pod>;
  readonly nodes: IndexedCache<Node>;
  /** With the index `trap`. */
  readonly policies: IndexedCache<KivePolicy>;
  readonly policyScope?: PolicyScope | undefined;
  /**
   * For how long a trap, a node or a kernel has to be gone: the agent that changes an object in place when
   * its policy is edited, or that comes up again with its node, should be first. Default: 10 s.
   */
  readonly graceMs?: number | undefined;
  /** After this time a finalizer that no loader takes off is taken off here. Default: 30 s. */
  readonly releaseMs?: number | undefined;
}

/** Reasons that have to last for `graceMs`: an agent may be at work on the object. With any other one, its pod is gone for good. */
const graceful: ReadonlySet<StaleReason> = new Set([
  'TrapGone',
  'OutsideNamespace',
  'NodeGone',
  'KernelGone',
]);
const WORKERS = 4;
const AGAIN_MS = 1000;

/** Runs until `signal` aborts. The caches are fed by others. @throws {RampartError} `INPUT` for times that cannot work. */
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
  // In the order in which they depend on each other: the last list must not find the others empty.
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
  /** Since when an object is stale, or being deleted. */
  readonly #since = new Map<string, { readonly what: string; readonly ms: number }>();

  constructor(context: ControllerContext, options: PodControllerOptions) {
    const { pods, nodes, policies, policyScope = defaultScope } = options;
    this.#options = { ...context, ...options };
    this.#view = {
      pod: (namespace, name) => pods.get(`${namespace}/${name}`),
      bootId: (name) => {
        // A single machine has no Node objects: then nothing is known about any node.
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
    // The object was changed: it is checked again in its new state.
    if (!(await deleteSame(client, kiveDataType, data, { unchanged: true, signal })))
      return requeueAfter(AGAIN_MS);
    logger.info({ data: key, policy: policyKeyOf(data), reason }, 'deleted an orphaned KiveData');
    if (reason === 'NodeGone' || reason === 'KernelGone') {
      await removeFinalizer(client, kiveDataType, data, dataHolds, { signal });
    }
    return done;
  }

  /** Removes the finalizer in place of a loader that is gone. */
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

  /** How much of a time is left since `what` was first seen of an object. */
  #leftMs(key: string, what: string, ms: number): number {
    const now = systemClock.monotonicMs();
    const known = this.#since.get(key);
    if (known?.what === what) return known.ms + ms - now;
    this.#since.set(key, { what, ms: now });
    return ms;
  }

  /** Asks the API itself: one cache may be behind another, and what is deleted wrongly leaves a gap. */
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
