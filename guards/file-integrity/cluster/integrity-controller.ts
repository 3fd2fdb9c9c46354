/** Reconciles each FileIntegrity: its configuration, its nodes, the requests to them, its status. One for both API groups. */
import { isNotFound, orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { done, requeueAfter, type Result, runController } from '../../../lib/kube/controller/controller.ts';
import { isDeleting } from '../../../lib/kube/controller/finalizers.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import type { WorkQueue } from '../../../lib/kube/controller/workqueue.ts';
import { type FileIntegrity, type FileIntegrityNodeStatus, type FileIntegrityStatus, names } from '../api.ts';
import { heldNodes } from '../results/holdoff.ts';
import type { NodeRequest } from '../results/node-result.ts';
import { requestAnnotation } from '../results/node-requests.ts';
import { labelValue, nodeStatusName } from '../results/object-names.ts';
import { configurationId } from '../aide-conf/digest.ts';
import { ActiveConfigs } from './active-config.ts';
import { integrityKeyOf } from './caches.ts';
import {
  type ClusterContext,
  countingOf,
  fieldManager,
  flushReported,
  type Found,
  foundAt,
  ownerOf,
  notify,
} from './context.ts';
import {
  type Changes,
  changesOf,
  type Configured,
  type IntegrityFacts,
  initializingNodes,
  isSameState,
  isSameStatus,
  maxNamedNodes,
  statusOf,
  wasPaused,
} from './integrity-status.ts';
import { NodeProgress } from './node-progress.ts';
import { reinitOf } from './reinit.ts';
import { UserConfigs } from './user-configs.ts';
import { WatchedNodes } from './watched-nodes.ts';
import { priorityClasses } from '../../../lib/kube/object/object.ts';

const WORKERS = 2;
/** Delay before a status is computed: results of many nodes arrive one after another. */
const GATHER_MS = 200;
/** Minimum times between two writes of a status: in general, and if only times of probes have changed. */
const PACE_MS = 500;
const TIMES_PACE_MS = 30_000;
/** Problems that end without an event, such as a missing right or a quota: retried at intervals. */
const unnoticed: ReadonlySet<string> = new Set(['ConfigMapUnreadable', 'ConfigMapUnwritable']);
const AGAIN_MS = 30_000;
const REQUESTS_AT_ONCE = 16;
/** How often progress is reported while nodes create baselines. */
const PROGRESS_MS = 15_000;

/** Runs until `signal` aborts; the caches are synced. */
export async function runIntegrityController(context: ClusterContext): Promise<void> {
  const { client, caches, logger } = context;
  using queue = keyQueue();
  const follow = { client, logger, onChange: (key: string) => queue.add(key) };
  await using users = new UserConfigs(follow);
  await using inTheWay = new UserConfigs(follow);
  using watched = new WatchedNodes(context, () => addAll(context, queue));
  using stack = new DisposableStack();
  for (const { integrities, statuses } of caches.groups) {
    stack.use(integrities.subscribe(({ key }) => queue.add(key)));
    stack.use(statuses.subscribe(({ object }) => queue.addAfter(integrityKeyOf(object), GATHER_MS)));
  }
  // An active ConfigMap has the name of its FileIntegrity, so its key is the FileIntegrity's.
  stack.use(caches.active.subscribe(({ key }) => queue.add(key)));
  addAll(context, queue);
  const configs = new ActiveConfigs(context, users, inTheWay);
  const { reconcile } = new IntegrityController(context, configs, watched);
  await runController({ ...context, name: 'file-integrity', queue, reconcile, workers: WORKERS });
}

function addAll({ caches }: ClusterContext, queue: WorkQueue): void {
  for (const { integrities } of caches.groups)
    for (const key of integrities.keys()) queue.add(key, { level: 1 });
}

class IntegrityController {
  readonly #context: ClusterContext;
  readonly #configs: ActiveConfigs;
  readonly #watched: WatchedNodes;
  readonly #priorities: PriorityClassNames;
  readonly #progress: NodeProgress;
  /** When the status was last written, in ms of the monotonic clock; keyed by uid. */
  readonly #writtenMs = new Map<string, number>();
  /**
   * The change that was already sent as an event but is not in the status yet, so that a retry does not send it again;
   * keyed by uid.
   */
  readonly #reported = new Map<string, string>();

  constructor(context: ClusterContext, configs: ActiveConfigs, watched: WatchedNodes) {
    this.#context = context;
    this.#configs = configs;
    this.#watched = watched;
    this.#priorities = new PriorityClassNames(context);
    this.#progress = new NodeProgress(context);
  }

  readonly reconcile = async (key: string, signal: AbortSignal): Promise<Result> => {
    const all = foundAt(this.#context.caches, key);
    for (const { integrity } of all)
      if (isDeleting(integrity)) {
        this.#writtenMs.delete(integrity.metadata.uid ?? '');
        this.#reported.delete(integrity.metadata.uid ?? '');
        this.#priorities.forget(integrity.metadata.uid ?? '');
      }
    const found = countingOf(all);
    if (found === undefined) {
      this.#watched.forget(key);
      this.#progress.forget(key);
      await this.#configs.forget(key, signal);
      // FileIntegrityNodeStatuses, the active ConfigMap and reports are deleted with their owner. Kept logs remain as a
      // record, as in FIO.
      return done;
    }
    const others = all.filter((one) => one !== found && !isDeleting(one.integrity));
    const waits: Result[] = [];
    for (const other of others) waits.push(await this.#refuse(other, found, signal));
    await this.#priorities.check(found, signal);
    const configured = await this.#configs.configure(key, found, signal);
    const { nodeNames, statuses, refused } = await this.#watched.of(key, found, signal);
    const isAsked = await this.#reinit(found, nodeNames, statuses, signal);
    // A request to nodes changes their statuses, and the caches report that soon: the status is written then.
    if (!isAsked) {
      const { text } = configured;
      const configuration = text && configurationId(found.integrity.spec.provider, text);
      const initializing = initializingNodes({ nodeNames, statuses, configuration });
      const some = initializing.slice(0, maxNamedNodes);
      const progress = some.length === 0 ? undefined : await this.#progress.of(key, some, signal);
      if (progress !== undefined) waits.push(requeueAfter(PROGRESS_MS));
      waits.push(
        await this.#writeStatus(
          found,
          { configured, nodeNames, statuses, configuration, ...(progress && { progress }) },
          signal,
        ),
      );
    }
    if (refused) throw refused;
    if (unnoticed.has(configured.reason)) waits.push(requeueAfter(AGAIN_MS));
    const againMs = Math.min(...waits.map(({ requeueAfterMs = Infinity }) => requeueAfterMs));
    return Number.isFinite(againMs) ? requeueAfter(againMs) : done;
  };

  async #refuse(other: Found, counting: Found, signal: AbortSignal): Promise<Result> {
    const { namespace, name } = other.integrity.metadata;
    const message = `An older FileIntegrity ${namespace}/${name} exists in the group ${counting.group.types.group}, and their ConfigMaps would have the same names. Rename this one, or delete the other.`;
    const configured: Configured = { isUsable: false, reason: 'NameTaken', message };
    return await this.#writeStatus(other, { configured, nodeNames: [], statuses: [] }, signal);
  }

  /** @returns whether a node was requested to create a new baseline */
  async #reinit(
    { group, integrity: cached }: Found,
    nodeNames: readonly string[],
    statuses: readonly FileIntegrityNodeStatus[],
    signal: AbortSignal,
  ): Promise<boolean> {
    const { client, counts, logger } = this.#context;
    if (reinitOf(cached, nodeNames, statuses) === undefined) return false;
    const { namespace, name = '' } = cached.metadata;
    // Read from the API: the cache may still have requests that were already carried out.
    const integrity = await orUndefined(client.get(group.types.integrities, { namespace, name }, { signal }));
    const reinit = integrity && reinitOf(integrity, nodeNames, statuses);
    if (integrity === undefined || reinit === undefined) return false;
    // FileIntegrity `a` on node `b-c` and `a-b` on node `c` have the same status name: a request to one must not reach
    // the other.
    const isOfOther = ({ nodeName }: { readonly nodeName: string }): boolean =>
      (group.statuses.get(`${namespace}/${nodeStatusName(name, nodeName)}`)?.nodeName ?? nodeName) !==
      nodeName;
    const requests = reinit.requests.filter((one) => !isOfOther(one));
    for (let at = 0; at < requests.length; at += REQUESTS_AT_ONCE) {
      const some = requests.slice(at, at + REQUESTS_AT_ONCE);
      await Promise.all(
        some.map(({ nodeName, request }) => this.#ask({ group, integrity }, nodeName, request, signal)),
      );
    }
    const { resourceVersion } = integrity.metadata;
    await client.patch(
      group.types.integrities,
      { namespace, name },
      { type: 'merge', body: { metadata: { resourceVersion, annotations: reinit.annotations } } },
      { fieldManager, signal },
    );
    for (const { by, node } of reinit.counted) counts.reinit(by, node);
    logger.info({ fileIntegrity: `${namespace}/${name}`, nodes: requests.length }, 'requested new baselines');
    const warn = (note: string, nodeName?: string): void => {
      const warning = { type: 'Warning', reason: 'FileIntegrityStatus', note } as const;
      notify(this.#context, { group, integrity }, warning, 'Reinit', nodeName);
    };
    for (const { nodeName } of reinit.requests.filter(isOfOther)) {
      warn(
        `cannot request a new baseline of node ${nodeName}: FileIntegrityNodeStatus ${nodeStatusName(name, nodeName)} belongs to another node and FileIntegrity. Rename one of the two.`,
        nodeName,
      );
    }
    if (reinit.unknown.length > 0) {
      warn(
        `${names.reinit} names nodes that this FileIntegrity does not select: ${reinit.unknown.join(', ')}`,
      );
    }
    return true;
  }

  async #ask(found: Found, nodeName: string, request: NodeRequest, signal: AbortSignal): Promise<void> {
    const { client } = this.#context;
    const { nodeStatuses } = found.group.types;
    const { namespace, name: owner = '' } = found.integrity.metadata;
    const place = { namespace, name: nodeStatusName(owner, nodeName) };
    const annotations = requestAnnotation(request);
    try {
      await client.patch(
        nodeStatuses,
        place,
        { type: 'merge', body: { metadata: { annotations } } },
        { fieldManager, signal },
      );
    } catch (error) {
      if (!isNotFound(error)) throw error;
      const status: FileIntegrityNodeStatus = {
        metadata: {
          ...(namespace !== undefined && { namespace }),
          name: place.name,
          labels: { [names.ownerLabel]: labelValue(owner), [names.nodeLabel]: labelValue(nodeName) },
          annotations,
          ownerReferences: [ownerOf(found.group.types, found.integrity)],
        },
        nodeName,
        results: [],
      };
      await client.create(nodeStatuses, status, { fieldManager, signal });
    }
  }

  async #writeStatus(found: Found, facts: IntegrityFacts, signal: AbortSignal): Promise<Result> {
    const { client, clock } = this.#context;
    const { integrity, group } = found;
    const before = integrity.status;
    const status = statusOf(integrity, facts, clock);
    const { namespace, name = '', uid = '', resourceVersion } = integrity.metadata;
    if (isSameStatus(before, status)) {
      this.#reported.delete(uid);
      return done;
    }
    const nowMs = clock.monotonicMs();
    const paceMs = isSameState(before, status) ? TIMES_PACE_MS : PACE_MS;
    const leftMs = (this.#writtenMs.get(uid) ?? -Infinity) + paceMs - nowMs;
    if (leftMs > 0) return requeueAfter(leftMs);
    const changes = changesOf(before, status, facts.configured);
    await this.#reportStatus(found, before, status, facts.configured, changes, signal);
    try {
      await client.patch(
        group.types.integrities,
        { namespace, name, subresource: 'status' },
        // With the resourceVersion, so that a former leader cannot overwrite a later status.
        {
          type: 'merge',
          body: { metadata: { resourceVersion }, status: { omittedNodeStatus: null, ...status } },
        },
        { fieldManager, signal },
      );
    } catch (error) {
      if (!isNotFound(error)) throw error;
      this.#reported.delete(uid);
      return done;
    }
    this.#writtenMs.set(uid, nowMs);
    this.#count(found, status, facts.configured, changes);
    return done;
  }

  /**
   * Sends one event for each change of the phase, as in FIO. Sent before the status is written: if the process were
   * killed after that, the event would never be sent.
   */
  async #reportStatus(
    found: Found,
    before: FileIntegrity['status'],
    { phase }: FileIntegrityStatus,
    { isUsable, isSubstitute, message }: Configured,
    { isOtherPhase, isOtherError }: Changes,
    signal: AbortSignal,
  ): Promise<void> {
    if (phase === undefined || !(isOtherPhase || isOtherError)) return;
    const { uid = '' } = found.integrity.metadata;
    const isWell = isUsable && isSubstitute === undefined;
    const note = isWell ? phase : `${phase}: ${message}`;
    const change = `${before?.phase ?? ''} ${note}`;
    if (this.#reported.get(uid) !== change) {
      notify(
        this.#context,
        found,
        { type: phase === 'Error' || !isWell ? 'Warning' : 'Normal', reason: 'FileIntegrityStatus', note },
        'Reconcile',
      );
      this.#reported.set(uid, change);
    }
    await flushReported(this.#context, signal);
  }

  #count(
    { integrity }: Found,
    { phase }: FileIntegrityStatus,
    { reason }: Configured,
    { isOtherPhase, isOtherError }: Changes,
  ): void {
    const { counts } = this.#context;
    const isPaused = heldNodes(integrity) !== undefined;
    if (isPaused !== (wasPaused(integrity) ?? false)) counts.paused(isPaused);
    if (phase === undefined) return;
    if (isOtherPhase) counts.phase(phase);
    if (isOtherError) counts.error(reason);
  }
}

/** PriorityClasses that always exist. */
const always: ReadonlySet<string> = new Set(['system-cluster-critical', 'system-node-critical']);

/**
 * Removes a priorityClassName that no PriorityClass has, and sends an event: the name has no effect here, but a user who
 * mistyped it should know.
 */
export class PriorityClassNames {
  readonly #context: ClusterContext;
  /** The name that was last looked up, keyed by the uid of the FileIntegrity. */
  readonly #checked = new Map<string, string>();

  constructor(context: ClusterContext) {
    this.#context = context;
  }

  forget(uid: string): void {
    this.#checked.delete(uid);
  }

  /** Looks up each name once. @throws if the FileIntegrity cannot be changed. */
  async check(found: Found, signal: AbortSignal): Promise<void> {
    const { client, logger } = this.#context;
    const { integrity, group } = found;
    const { namespace, name = '', uid = '', resourceVersion } = integrity.metadata;
    const className = integrity.spec.priorityClassName ?? '';
    if (className === '' || always.has(className) || this.#checked.get(uid) === className) return;
    try {
      await client.get(priorityClasses, { name: className }, { signal });
    } catch (error) {
      signal.throwIfAborted();
      if (isNotFound(error)) {
        await client.patch(
          group.types.integrities,
          { namespace, name },
          { type: 'merge', body: { metadata: { resourceVersion }, spec: { priorityClassName: null } } },
          { fieldManager, signal },
        );
        const note = `there is no PriorityClass ${JSON.stringify(className)}: spec.priorityClassName is cleared; the FileIntegrity works without it`;
        notify(this.#context, found, { type: 'Warning', reason: 'FileIntegrityStatus', note }, 'Validate');
        return;
      }
      // The right may be missing after an upgrade. That is no error: nothing depends on the class.
      logger.warn({ err: error, className }, 'cannot check whether a PriorityClass exists');
    }
    this.#checked.set(uid, className);
  }
}
