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

/** Says how the work of a part goes, for its section of `rampart status`: in the lease of its process, replacing its previous report. Numbers alone may take 10 s, as may what a function returns. */
type ReportFacts = (facts: GuardFacts | (() => GuardFacts)) => void;

/** Common to both kinds of parts. Everything here belongs to the program, and ends with `signal`. */
export interface GuardContext {
  readonly guard: string;
  readonly client: KubeClient;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  /** The identity of this process, in leases and events. */
  readonly identity: string;
  /** Parts of /readyz and /healthz, by the names of the descriptor. */
  readonly health: PartHealth;
  /** undefined if metrics are off. */
  readonly metrics: SharedMetrics | undefined;
  /** Takes a finding of the guard: a line of JSON as `findingLine` writes it, without a newline. Never waits. */
  readonly sink: (line: string) => void;
  /** Writes Kubernetes Events of this guard; it is stopped with the part. */
  recorder(limits?: EventRecorderOptions['limits']): EventRecorder;
  /**
   * The objects of a query, kept by one reflector for all guards of the process that ask the same, as long as one of them
   * does. It is never synced if the kind is not served.
   *
   * With `part`, readiness waits for it under this name of the descriptor's health parts.
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
  /** @throws {TypeError} for a name that the descriptor has not. */
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
  /** As the Node object and `spec.nodeName` of pods have it. */
  readonly nodeName: string;
  /** Containers of the runtime; stays empty if no guard uses the runtime. */
  readonly containers: ContainerSource;
  /** Where the root of the node is: `/hostroot` in the agent's pod, `/` on a machine by itself. */
  readonly hostRoot: string;
  /**
   * A directory for data that the part keeps; created with the first write.
   *
   * @throws {TypeError} if the descriptor declares none
   */
  readonly directory: string;
  /** The version of Rampart. */
  readonly version: string;
  readonly reportFacts: ReportFacts;
  /** How much it sees on this node, and what it has lost: `read` is called each time the lease of the agent is written. */
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
  /**
   * Part of the API server in this process: register here to object to writes. Undefined if the API is in
   * another process.
   */
  readonly admission: AdmissionChain | undefined;
  /**
   * Works while this process holds the operator's lease, until `signal` aborts; what `work` is given ends with the term.
   *
   * @throws what `work` throws.
   */
  lead(work: (term: GuardContext) => Promise<void>): Promise<void>;
}
