/** Reports the state of each policy on this node to the API: its entry in the status, paced. */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { systemClock } from '../../../lib/time/clock.ts';
import { done, requeueAfter, type Result } from '../../../lib/kube/controller/controller.ts';
import { isDeleting } from '../../../lib/kube/controller/finalizers.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import type { WorkQueue } from '../../../lib/kube/controller/workqueue.ts';
import { type KivePolicy, kivePolicyType } from '../api.ts';
import { callbackProblems, type StateOf } from '../delivery/callback-problems.ts';
import type { MatchedTrap } from './looked.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { type CallbackProblem, statusOf } from '../policy-status-schema.ts';
import { nodeStatus } from './node-status.ts';

export interface NodeReporterOptions {
  readonly client: KubeClient;
  readonly nodeName: string;
  readonly policies: IndexedCache<KivePolicy>;
  readonly viewOf: (policyKey: string) => Iterable<MatchedTrap>;
  /** Of keys of policies; its reconcile is {@link NodeReporter.reconcile}. */
  readonly queue: WorkQueue;
  /** Of callbacks; without it nothing is told of them. */
  readonly stateOf?: StateOf | undefined;
  /** The configuration of this node refuses a callback, which the status of the policy has not said before. */
  readonly onRefused?: (policyKey: string, problem: CallbackProblem) => void;
}

/** Between two writes for one policy. */
const PACE_MS = 1000;
/** An alert alone is told no sooner than this after the last one. */
const ALERT_PACE_MS = 10_000;
/** managedFields take no longer name (apimachinery, MaxFieldManagerLength). */
const MAX_MANAGER = 128;

export class NodeReporter {
  readonly #options: NodeReporterOptions;
  readonly #fieldManager: string;
  readonly #written = new Map<string, { readonly text: string; readonly ms: number }>();
  readonly #lastAlertMs = new Map<string, number>();

  constructor(options: NodeReporterOptions) {
    this.#options = options;
    this.#fieldManager = `rampart-file-access-${options.nodeName}`.slice(0, MAX_MANAGER);
  }

  /** What is matched or watched for these may be something else now. */
  touch(policyKeys: Iterable<string>): void {
    for (const key of policyKeys) this.#options.queue.add(key);
  }

  /** There was an alert. Called for each: it has to be quick. */
  alerted(policyKey: string, wallMs: number): void {
    const known = this.#lastAlertMs.get(policyKey) ?? 0;
    if (wallMs - known < ALERT_PACE_MS) return;
    this.#lastAlertMs.set(policyKey, wallMs);
    this.#options.queue.add(policyKey);
  }

  readonly reconcile = async (key: string, signal: AbortSignal): Promise<Result> => {
    const { client, nodeName, policies, viewOf } = this.#options;
    const policy = policies.get(key);
    if (policy === undefined) this.#lastAlertMs.delete(key);
    if (policy === undefined || isDeleting(policy)) {
      this.#written.delete(key);
      return done;
    }
    const written = statusOf(policy).nodes?.find(({ name }) => name === nodeName);
    const matched = [...viewOf(key)];
    const refused = new Set<string>();
    const stateOf: StateOf = (callback, secret) => {
      const state = this.#options.stateOf?.(callback, secret);
      if (state?.isRefused !== true) return state;
      // Every node knows it. Those without such a container have no alerts, and nothing to say.
      if (matched.length === 0) return undefined;
      refused.add(state.name);
      return state;
    };
    const troubles = callbackProblems(policy, stateOf, written?.callbackProblems);
    const entry = nodeStatus(nodeName, policy, matched, this.#lastAlertMs.get(key), troubles);
    const text = JSON.stringify(entry) ?? '';
    const known = this.#written.get(key);
    if (known?.text === text) return done;
    if (known === undefined && entry === undefined) {
      // Perhaps an earlier process has said something.
      if (written === undefined) return done;
    }
    const leftMs = known === undefined ? 0 : known.ms + PACE_MS - systemClock.monotonicMs();
    if (leftMs > 0) return requeueAfter(leftMs);
    const { namespace = '', name = '' } = policy.metadata;
    const status = entry === undefined ? {} : { nodes: [entry] };
    const ms = systemClock.monotonicMs();
    const object = { metadata: { namespace, name }, status } as unknown as KivePolicy;
    const options = { subresource: 'status', fieldManager: this.#fieldManager, force: true, signal };
    if ((await orUndefined(client.apply(kivePolicyType, object, options))) === undefined) return done;
    this.#written.set(key, { text, ms });
    for (const problem of troubles) {
      const isKnown = written?.callbackProblems?.some(({ callback }) => callback === problem.callback);
      if (refused.has(problem.callback) && isKnown !== true) this.#options.onRefused?.(key, problem);
    }
    return done;
  };
}
