import type { ContainerSource } from '../lib/cri/container-source.ts';
import type { KubeClient } from '../lib/kube/client/client.ts';
import type { EventRecorder, EventRecorderOptions } from '../lib/kube/events/event-recorder.ts';
import type { IndexedCache } from '../lib/kube/cache/indexed-cache.ts';
import type { KubeObject } from '../lib/kube/object/object.ts';
import type { CacheQuery } from '../lib/kube/cache/shared-caches.ts';
import type { SharedMetrics } from '../lib/kube/controller/shared-metrics.ts';
import type { Ask } from '../lib/telemetry/health.ts';
import type { Logger } from '../lib/telemetry/log.ts';
import type { AdmissionChain } from './admission.ts';
import type { Coverage, GuardFacts } from './agent-lease-names.ts';
import type { ReportWriter } from './reports/report-writer.ts';

/**
 * Reports how the work of a part goes, for its section of `rampart status`. The report is in the lease of its process, and replaces the
 * previous one. If only numbers change, or `facts` is a function, it may take 10 s until the lease is written.
 */
type ReportFacts = (facts: GuardFacts | (() => GuardFacts)) => void;

/** What node parts and cluster parts have in common. All of it belongs to the program, and ends with `signal`. */
export interface GuardContext {
  readonly guard: string;
  readonly client: KubeClient;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  /** The identity of this process, in leases and events. */
  readonly identity: string;
  /** Registers parts of /readyz and /healthz, by their names in the descriptor. */
  readonly health: PartHealth;
  /** Undefined if metrics are off. */
  readonly metrics: SharedMetrics | undefined;
  /** Takes a finding of the guard: a line of JSON as `findingLine` writes it, without a newline. Never waits. */
  readonly sink: (line: string) => void;
  /** Writes Kubernetes Events for this guard; it stops when the part ends. */
  recorder(limits?: EventRecorderOptions['limits']): EventRecorder;
  /**
   * The objects of a query, in a cache that all guards of the process with the same query share, as long as one of them uses it. It never
   * syncs if the kind is not served.
   *
   * With `part`, the process is not ready until the cache has synced; `part` is the name of a health part in the descriptor.
   *
   * @example
   * const pods = context.cache({ type: podType, projection: slimPod, fieldSelector: `spec.nodeName=${nodeName}` }, 'pods');
   * await pods.synced;
   */
  cache<T extends KubeObject>(query: CacheQuery<T>, part?: string): IndexedCache<T>;
}

/**
 * @example
 * using _pods = context.health.ready('pods', () => (pods.isSynced ? undefined : 'pods are not listed yet'));
 * using _loop = context.health.alive('loop', () => (isStuck() ? 'no door was looked at for a minute' : undefined));
 */
export interface PartHealth {
  /** @throws {TypeError} for a name that is not in the descriptor. */
  ready(part: string, ask: Ask, remark?: Ask): Disposable;
  alive(part: string, ask: Ask): Disposable;
}

/**
 * @example
 * export const doorNode: NodePart = async ({ hostRoot, nodeName, signal, sink }) => {
 *   for await (const door of openedDoors(join(hostRoot, 'dev/doors'), signal)) sink(findingLine(openDoor(nodeName, door)));
 * };
 */
export interface NodeContext extends GuardContext {
  /** As in the name of the Node object, and in `spec.nodeName` of pods. */
  readonly nodeName: string;
  /** Containers of the runtime; stays empty if no guard uses the runtime. */
  readonly containers: ContainerSource;
  /** The path of the node's root directory: `/hostroot` in the agent's pod, `/` on a single machine. */
  readonly hostRoot: string;
  /**
   * A directory for the part's data; created by the first write.
   *
   * @throws {TypeError} if the descriptor declares none
   */
  readonly directory: string;
  /** The version of Rampart. */
  readonly version: string;
  readonly reportFacts: ReportFacts;
  /** Reports how much the part sees on this node, and what it has lost: `read` is called each time the agent's lease is written. */
  readonly reportCoverage: (read: () => Coverage) => void;
  /** Prints progress for the user at the terminal, if there is one. */
  readonly say: (text: string) => void;
}

/**
 * @example
 * export const doorCluster: ClusterPart = async (context) => {
 *   await context.lead(async (term) => {
 *     for await (const report of doorReports(term)) await context.reports.write(report, term.signal);
 *   });
 * };
 */
export interface ClusterContext extends GuardContext {
  readonly reportFacts: ReportFacts;
  readonly reports: Pick<ReportWriter, 'delete' | 'write'>;
  /** For registering an admission, which can refuse writes. Undefined if the API server is another process. */
  readonly admission: AdmissionChain | undefined;
  /**
   * Runs `work` while this process holds the operator's lease, until `signal` aborts; the context that `work` gets ends with the term.
   *
   * @throws what `work` throws.
   */
  lead(work: (term: GuardContext) => Promise<void>): Promise<void>;
}
