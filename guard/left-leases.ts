/**
 * Deletes leases that are no longer renewed: those of agents whose Node is gone, and those of kernels that no agent runs on. They have no
 * owner: if the Node owned an agent's lease, the garbage collector would delete it with the Node, even if the agent still works, and the
 * agent's later writes would stay.
 */
import { deleteSame } from '../lib/kube/client/delete-same.ts';
import type { IndexedCache } from '../lib/kube/cache/indexed-cache.ts';
import {
  type ControllerContext,
  done,
  type Result,
  requeueAfter,
  runController,
} from '../lib/kube/controller/controller.ts';
import { keyQueue } from '../lib/kube/controller/key-queue.ts';
import { whenSynced } from '../lib/kube/controller/run-parts.ts';
import { type Lease, leases, type Node } from '../lib/kube/object/object.ts';
import { type Clock, systemClock } from '../lib/time/clock.ts';
import { isAgentLease, kernelLeaseLabel, readAgentLease } from './agent-lease-names.ts';
import { nodeExists } from './gone-nodes.ts';
import { systemNamespace } from './guard.ts';

export interface LeftLeasesOptions extends ControllerContext {
  readonly nodes: IndexedCache<Node>;
  readonly clock?: Clock;
}

/** An agent that works renews its lease three times within this time. */
const UNCHANGED_MS = 30_000;
const AGAIN_MS = 5000;
const KEY = 'leases';

/** Runs until `signal` aborts. */
export async function deleteLeftLeases(options: LeftLeasesOptions): Promise<void> {
  const { nodes, signal } = options;
  const { reconcile } = new LeftLeases(options);
  using queue = keyQueue();
  using _nodes = nodes.subscribe(({ type, object, previous }) => {
    // After a reboot the node runs another kernel: the lease of the previous one is left over.
    const isBooted = type === 'modified' && bootId(object) !== bootId(previous);
    // Also after the first Node has appeared: as long as the API has no Nodes, it is unknown which nodes exist.
    if (type === 'deleted' || isBooted || nodes.size === 1) queue.add(KEY);
  });
  await whenSynced([nodes], signal, async () => {
    queue.add(KEY);
    await runController({ ...options, name: 'left-leases', queue, reconcile });
  });
}

export class LeftLeases {
  readonly #options: LeftLeasesOptions;
  /** Keyed by the lease's name: the version that was first seen, and when. */
  readonly #since = new Map<string, { readonly version: string; readonly ms: number }>();

  constructor(options: LeftLeasesOptions) {
    this.#options = options;
  }

  readonly reconcile = async (_: string, signal: AbortSignal): Promise<Result> => {
    const { client, nodes, clock = systemClock } = this.#options;
    // A single machine has no Node objects.
    if (nodes.size === 0) return done;
    const { items } = await client.list(leases, { namespace: systemNamespace }, { signal });
    const left = leftOf(items, (name) => nodes.has(name));
    const names = new Set(left.map(({ metadata }) => metadata.name));
    for (const name of this.#since.keys()) if (!names.has(name)) this.#since.delete(name);
    for (const lease of left) {
      const { name = '', resourceVersion: version = '' } = lease.metadata;
      const nowMs = clock.monotonicMs();
      let since = this.#since.get(name);
      if (since?.version !== version) this.#since.set(name, (since = { version, ms: nowMs }));
      if (lease.spec?.holderIdentity && nowMs - since.ms < UNCHANGED_MS) continue;
      if (await this.#isLeft(lease, signal)) await this.#delete(lease, signal);
    }
    return this.#since.size > 0 ? requeueAfter(AGAIN_MS) : done;
  };

  async #isLeft(lease: Lease, signal: AbortSignal): Promise<boolean> {
    const node = readAgentLease(lease)?.nodeName;
    if (node === undefined || !(await nodeExists(this.#options.client, node, signal))) return true;
    this.#since.delete(lease.metadata.name ?? '');
    return false;
  }

  async #delete(lease: Lease, signal: AbortSignal): Promise<void> {
    const { client, logger } = this.#options;
    const { name = '' } = lease.metadata;
    // Deletes it only if it was not renewed after all.
    const deleted = await deleteSame(client, leases, lease, { unchanged: true, signal });
    if (deleted) logger.info({ lease: name }, 'deleted a lease that nobody renews any more');
    this.#since.delete(name);
  }
}

/** The leases of agents without a Node, and of kernels without an agent. */
function leftOf(items: readonly Lease[], hasNode: (name: string) => boolean): Lease[] {
  const isGone = (lease: Lease): boolean => {
    const agent = readAgentLease(lease);
    return agent !== undefined && !hasNode(agent.nodeName);
  };
  const kernels = new Set(items.filter((lease) => isAgentLease(lease) && !isGone(lease)).map(kernelOf));
  return items.filter((lease) => {
    if (isAgentLease(lease)) return isGone(lease);
    const kernel = kernelOf(lease);
    return kernel !== undefined && !kernels.has(kernel);
  });
}

function kernelOf({ metadata }: Lease): string | undefined {
  return metadata.labels?.[kernelLeaseLabel];
}

function bootId(node: Node | undefined): string | undefined {
  return node?.status?.nodeInfo?.bootID;
}
