/** Reports the state of all policies on this node to the API, in one object that only this agent writes, at limited rates. */
import { isDeepStrictEqual } from 'node:util';

import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { systemClock } from '../../../lib/time/clock.ts';
import { requeueAfter, type Result } from '../../../lib/kube/controller/controller.ts';
import { isDeleting } from '../../../lib/kube/controller/finalizers.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import type { WorkQueue } from '../../../lib/kube/controller/workqueue.ts';
import { nodes, type OwnerReference } from '../../../lib/kube/object/object.ts';
import { compareText } from '../../../lib/output/compare-text.ts';
import { kiveDataNamespace, kiveNodeStatusType, type KivePolicy } from '../api.ts';
import { callbackProblems, type StateOf } from '../delivery/callback-problems.ts';
import type { MatchedTrap } from './looked.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import type { CallbackProblem, PolicyPart } from '../policy-status-schema.ts';
import { type NodeStatusBody, nodeStatusOf, partOf } from './node-status.ts';

export interface NodeReporterOptions {
  readonly client: KubeClient;
  readonly nodeName: string;
  readonly policies: IndexedCache<KivePolicy>;
  readonly viewOf: (policyKey: string) => Iterable<MatchedTrap>;
  /** Whether containers are known: until then, earlier reports about files in them stay. */
  readonly knowsContainers: () => boolean;
  /** Its only key is the node's name, handled by {@link NodeReporter.reconcile}. */
  readonly queue: WorkQueue;
  /** Returns the state of a callback; without it, states of callbacks are not reported. */
  readonly stateOf?: StateOf | undefined;
  /** Called once this process has reported for the first time. */
  readonly onReported?: () => void;
  /** Called when the configuration of this node refuses a callback and the status has not yet reported that. */
  readonly onRefused?: (policyKey: string, problem: CallbackProblem) => void;
}

/** Minimum time between two writes. */
const PACE_MS = 1000;
/** Minimum time between two writes of which the second only reports alerts. */
const ALERT_PACE_MS = 10_000;
/** How often the object is read again, because it is not watched: it may have been deleted, or its node created again. */
const READ_AGAIN_MS = 300_000;
const FIELD_MANAGER = 'rampart-file-access-node';

/** A node's report on a policy. */
interface Report {
  readonly part: PolicyPart;
  readonly refused: readonly CallbackProblem[];
}

/** What is known of the object in the API. */
interface Written {
  /** Undefined if the object does not exist. */
  readonly body: NodeStatusBody | undefined;
  readonly parts: ReadonlyMap<string, PolicyPart>;
  /** The Node object; undefined if it does not exist. */
  readonly owner: OwnerReference | undefined;
  readonly isOwned: boolean;
}

export class NodeReporter {
  readonly #options: NodeReporterOptions;
  /** Undefined until the object was read. */
  #written: Written | undefined;
  #readAgainMs = -Infinity;
  readonly #reports = new Map<string, Report>();
  readonly #touched = new Set<string>();
  /** Policies with an unreported alert. */
  readonly #alerted = new Set<string>();
  readonly #lastAlertMs = new Map<string, number>();
  #writtenMs = -Infinity;
  #alertsWrittenMs = -Infinity;
  #hasReported = false;

  constructor(options: NodeReporterOptions) {
    this.#options = options;
  }

  /** Call when the matched or watched files of these policies may have changed. */
  touch(policyKeys: Iterable<string>): void {
    for (const key of policyKeys) this.#touched.add(key);
    this.#options.queue.add(this.#options.nodeName);
  }

  /** Whether this process has reported: until then the API has what the previous one wrote. */
  get hasReported(): boolean {
    return this.#hasReported;
  }

  /** Reports that a policy raised an alert. It is called for each alert, so it has to be quick. */
  alerted(policyKey: string, wallMs: number): void {
    const known = this.#lastAlertMs.get(policyKey) ?? 0;
    if (wallMs - known < ALERT_PACE_MS) return;
    this.#lastAlertMs.set(policyKey, wallMs);
    this.#alerted.add(policyKey);
    this.#options.queue.add(this.#options.nodeName);
  }

  readonly reconcile = async (_key: string, signal: AbortSignal): Promise<Result> => {
    const now = systemClock.monotonicMs();
    const onlyAlerts = this.#touched.size === 0 && this.#alerted.size > 0;
    const leftMs =
      Math.max(this.#writtenMs + PACE_MS, onlyAlerts ? this.#alertsWrittenMs + ALERT_PACE_MS : 0) - now;
    if (leftMs > 0) return requeueAfter(leftMs);
    if (this.#written === undefined || this.#readAgainMs <= now) {
      this.#written = await this.#read(signal);
      // Random, so that not all nodes read at the same time.
      this.#readAgainMs = now + READ_AGAIN_MS * (1 + Math.random());
    }
    const hasAlerts = this.#alerted.size > 0;
    const written = this.#written;
    const keys = this.#touched.union(this.#alerted);
    this.#touched.clear();
    this.#alerted.clear();
    for (const key of keys) this.#look(key, written);
    const body = this.#body();
    if (!isDeepStrictEqual(body, written.body) || (body !== undefined && !written.isOwned)) {
      this.#writtenMs = now;
      if (hasAlerts) this.#alertsWrittenMs = now;
      await this.#write(body, written, signal);
    }
    if (!this.#hasReported) {
      this.#hasReported = true;
      this.#options.onReported?.();
    }
    return requeueAfter(this.#readAgainMs - now);
  };

  #look(key: string, written: Written): void {
    const { policies, viewOf, knowsContainers } = this.#options;
    const policy = policies.get(key);
    const earlier = this.#reports.get(key)?.part ?? written.parts.get(key);
    this.#reports.delete(key);
    // A new policy may have the name of a deleted one.
    const before = earlier?.uid === policy?.metadata.uid ? earlier : undefined;
    if (before !== earlier || policy === undefined) this.#lastAlertMs.delete(key);
    if (policy === undefined || isDeleting(policy)) return;
    const matched = [...viewOf(key)];
    if (before !== undefined && matched.length === 0 && !knowsContainers()) {
      this.#reports.set(key, { part: before, refused: [] });
      return;
    }
    const refused = new Set<string>();
    const stateOf: StateOf = (callback, secret) => {
      const state = this.#options.stateOf?.(callback, secret);
      if (state?.isRefused !== true) return state;
      // Every node has this configuration. Nodes without a matching container raise no alerts, so they do not report
      // it.
      if (matched.length === 0) return undefined;
      refused.add(state.name);
      return state;
    };
    const troubles = callbackProblems(policy, stateOf, before?.callbackProblems);
    const reported = before?.lastAlertTime;
    const lastAlertMs =
      this.#lastAlertMs.get(key) ?? (reported === undefined ? undefined : Date.parse(reported));
    const part = partOf(policy, matched, lastAlertMs, troubles);
    if (part === undefined) return;
    this.#reports.set(key, { part, refused: troubles.filter(({ callback }) => refused.has(callback)) });
  }

  #body(): NodeStatusBody | undefined {
    if (this.#reports.size === 0) return undefined;
    const reports = [...this.#reports].toSorted(([a], [b]) => compareText(a, b));
    return nodeStatusOf(reports.map(([, { part }]) => part));
  }

  async #read(signal: AbortSignal): Promise<Written> {
    const { client, nodeName: name } = this.#options;
    const [object, node] = await Promise.all([
      orUndefined(client.get(kiveNodeStatusType, { namespace: kiveDataNamespace, name }, { signal })),
      orUndefined(client.get(nodes, { name }, { signal })),
    ]);
    const uid = node?.metadata.uid;
    const owner = uid === undefined ? undefined : { apiVersion: 'v1', kind: 'Node', name, uid };
    if (object === undefined) return { body: undefined, parts: new Map(), owner, isOwned: false };
    const { apiVersion: _version, kind: _kind, metadata, ...body } = object;
    const isOwned = owner === undefined || metadata.ownerReferences?.some((one) => one.uid === uid) === true;
    const parts = new Map(body.policies.map((part) => [`${part.namespace}/${part.name}`, part]));
    return { body, parts, owner, isOwned };
  }

  async #write(body: NodeStatusBody | undefined, written: Written, signal: AbortSignal): Promise<void> {
    const { client, nodeName: name, onRefused } = this.#options;
    const reports = [...this.#reports];
    const { owner } = written;
    const metadata = { namespace: kiveDataNamespace, name };
    if (body === undefined) {
      await orUndefined(client.delete(kiveNodeStatusType, metadata, { signal }));
    } else {
      const object = { metadata: { ...metadata, ...(owner && { ownerReferences: [owner] }) }, ...body };
      await client.apply(kiveNodeStatusType, object, { fieldManager: FIELD_MANAGER, force: true, signal });
    }
    const parts = new Map(reports.map(([key, { part }]) => [key, part]));
    this.#written = { body, parts, owner, isOwned: true };
    for (const [key, { part, refused }] of reports) {
      const before = written.parts.get(key);
      const known = before?.uid === part.uid ? before.callbackProblems : undefined;
      for (const problem of refused) {
        if (known?.some(({ callback }) => callback === problem.callback) !== true) onRefused?.(key, problem);
      }
    }
  }
}
