/** Maintains policies, once per cluster: their finalizer, their conditions, and events about traps that cannot work. */
import { systemClock } from '../../../lib/time/clock.ts';
import {
  type ControllerContext,
  done,
  requeueAfter,
  type Result,
  runController,
} from '../../../lib/kube/controller/controller.ts';
import { referenceTo } from '../../../lib/kube/events/event-object.ts';
import type { EventRecorder } from '../../../lib/kube/events/event-recorder.ts';
import {
  addFinalizer,
  hasFinalizer,
  isDeleting,
  removeFinalizer,
} from '../../../lib/kube/controller/finalizers.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import { type KiveData, type KiveNodeStatus, type KivePolicy, kivePolicyType } from '../api.ts';
import type { Node } from '../../../lib/kube/object/object.ts';
import { policyKeyOf } from '../caches.ts';
import { kivePolicyFinalizer, policyHolds } from '../kive-data.ts';
import { compilePolicy } from '../policy/matching.ts';
import type { PolicyScope } from '../policy/policy-scope.ts';
import { PolicyParts } from './policy-parts.ts';
import { clusterStatus } from './policy-status.ts';
import { describeProblem } from '../policy/validation.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { statusOf } from '../policy-status-schema.ts';

export interface PolicyControllerOptions extends ControllerContext {
  readonly policies: IndexedCache<KivePolicy>;
  /** Has the index `policy`. */
  readonly data: IndexedCache<KiveData>;
  readonly nodes: IndexedCache<Node>;
  readonly statuses: IndexedCache<KiveNodeStatus>;
  readonly recorder: Pick<EventRecorder, 'record'>;
  readonly policyScope?: PolicyScope | undefined;
}

const WORKERS = 2;
/** Minimum time between two writes of one policy's status. */
const PACE_MS = 2000;

/** Runs until `signal` aborts; the caches must be synced. */
export async function runPolicyController(options: PolicyControllerOptions): Promise<void> {
  const { policies, data, nodes, statuses } = options;
  using queue = keyQueue();
  using stack = new DisposableStack();
  const parts = stack.use(new PolicyParts(statuses, (key) => queue.add(key)));
  const { reconcile } = new PolicyController(options, parts);
  stack.use(policies.subscribe(({ key }) => queue.add(key)));
  stack.use(
    data.subscribe(({ type, object }) => {
      // A policy that is being deleted waits until its last KiveData is gone.
      if (type === 'deleted') queue.add(policyKeyOf(object));
    }),
  );
  stack.use(
    nodes.subscribe(({ type, key: node }) => {
      // All policies when the first Node appears: as long as the API has no Nodes, it is unknown which nodes exist.
      const keys = nodes.size <= 1 ? policies.keys() : parts.keysOf(node);
      if (type !== 'modified') for (const key of keys) queue.add(key, { level: 1 });
    }),
  );
  for (const key of policies.keys()) queue.add(key, { level: 1 });
  await runController({ ...options, name: 'file-access-policies', queue, reconcile, workers: WORKERS });
}

class PolicyController {
  readonly #options: PolicyControllerOptions;
  readonly #parts: PolicyParts;
  readonly #writtenMs = new Map<string, number>();
  /** Keyed by policy: the last reported state of its traps. */
  readonly #reported = new Map<string, string>();

  constructor(options: PolicyControllerOptions, parts: PolicyParts) {
    this.#options = options;
    this.#parts = parts;
  }

  readonly reconcile = async (key: string, signal: AbortSignal): Promise<Result> => {
    const { client, policies, data, logger } = this.#options;
    const policy = policies.get(key);
    if (policy === undefined || isDeleting(policy)) {
      this.#writtenMs.delete(key);
      this.#reported.delete(key);
    }
    if (policy === undefined) return done;
    if (isDeleting(policy)) {
      if (!hasFinalizer(policy, policyHolds)) return done;
      const left = data.keysByIndex('policy', key).length;
      // The agents delete them or, on nodes without an agent, the pod controller. When the last one is deleted, this policy is queued
      // again.
      if (left > 0) {
        logger.debug({ policy: key, left }, 'waiting for the KiveData of a deleted policy to be removed');
        return done;
      }
      await removeFinalizer(client, kivePolicyType, policy, policyHolds, { signal });
      return done;
    }
    const live = await addFinalizer(client, kivePolicyType, policy, kivePolicyFinalizer, { signal });
    this.#reportRefused(key, live);
    return await this.#writeStatus(key, live, signal);
  };

  #reportRefused(key: string, policy: KivePolicy): void {
    for (const text of this.#newProblems(key, policy)) {
      this.#options.recorder.record({
        regarding: referenceTo(kivePolicyType, policy),
        type: 'Warning',
        reason: 'TrapRefused',
        action: 'Validate',
        note: text,
      });
    }
  }

  #newProblems(key: string, policy: KivePolicy): string[] {
    const texts = compilePolicy(policy, this.#options.policyScope).problems.map(describeProblem);
    const all = texts.join('\n');
    if ((this.#reported.get(key) ?? '') === all) return [];
    this.#reported.set(key, all);
    return texts;
  }

  async #writeStatus(key: string, policy: KivePolicy, signal: AbortSignal): Promise<Result> {
    const { client, nodes } = this.#options;
    const now = systemClock.monotonicMs();
    const leftMs = (this.#writtenMs.get(key) ?? -Infinity) + PACE_MS - now;
    const before = statusOf(policy);
    // A single machine has no Node objects.
    const parts = this.#parts.of(key, policy.metadata.uid, (name) => nodes.size === 0 || nodes.has(name));
    const status = clusterStatus(policy, parts, this.#options.policyScope);
    if (status === before) return done;
    if (leftMs > 0) return requeueAfter(leftMs);
    const { namespace, name = '', resourceVersion } = policy.metadata;
    const cleared = Object.fromEntries(Object.keys(before).map((field) => [field, null]));
    // With the resourceVersion: if the status is based on an old version, its times would be wrong.
    const body = { metadata: { resourceVersion }, status: { ...cleared, ...status } };
    const place = { namespace, name, subresource: 'status' };
    const written = await orUndefined(
      client.patch(kivePolicyType, place, { type: 'merge', body }, { signal }),
    );
    if (written !== undefined) this.#writtenMs.set(key, now);
    return done;
  }
}
