/**
 * What the operator runs for this guard, once per cluster.
 *
 * @module
 */
import { systemClock } from '../../shared/time/clock.ts';
import { EventRecorder } from '../../shared/kube/event-recorder.ts';
import type { IndexedCache } from '../../shared/kube/indexed-cache.ts';
import type { KubeObject } from '../../shared/kube/object.ts';
import { type OperatorPartOptions, runOperatorPart } from '../../shared/kube/operator-part.ts';
import { runReflector } from '../../shared/kube/reflector.ts';
import { allOrNone, whenSynced } from '../../shared/kube/run-parts.ts';
import { names } from './api.ts';
import { newCaches, slimStatus, withoutData } from './cluster/caches.ts';
import type { AgentAccount, ClusterContext, IntegrityReports } from './cluster/context.ts';
import { runIntegrityController } from './cluster/integrity-controller.ts';
import { ClusterMetrics } from './cluster/metrics.ts';
import { agentRole, baselineKeySecret, runNamespaceController } from './cluster/namespace-controller.ts';
import { runResultController } from './cluster/result-controller.ts';
import { slimNode } from './for-node.ts';

export interface FileIntegrityClusterOptions extends OperatorPartOptions {
  /** What the agents run as. Default: `rampart-agent` in `kivebpf-system`, as deploy/ has it. */
  readonly agents?: AgentAccount;
  /** Where results of nodes are reported, e.g. a ReportWriter. Default: nowhere. */
  readonly reports?: IntegrityReports;
  /** Where the lease is. Default: `kivebpf-system`, as deploy/ has it. */
  readonly namespace?: string;
}

export const clusterLease = 'rampart-file-integrity';
/** Where Rampart itself is deployed. */
export const deployedNamespace = 'kivebpf-system';
export const deployedAgents: AgentAccount = { namespace: deployedNamespace, serviceAccount: 'rampart-agent' };

/**
 * All nodes are told of at their FileIntegrity, so the usual 25 events about one object are not enough. What one node has to say is
 * folded after some.
 */
const eventLimits = { burst: 1000, perSecond: 2, remembered: 8192 };
const STOP_MS = 2000;

/**
 * Looks after FileIntegrity objects of both groups and takes the results of the agents, while this process holds the lease
 * `rampart-file-integrity`; until `signal` aborts. Creates the namespace of the lease where it is missing.
 *
 * @throws what cannot be mended by trying again, e.g. `INPUT` for options that cannot work. That the API cannot be
 *   reached is not among it.
 */
export async function runFileIntegrityCluster(options: FileIntegrityClusterOptions): Promise<void> {
  const { namespace = deployedNamespace } = options;
  const counts = new ClusterMetrics();
  if (options.metrics !== undefined) counts.register(options.metrics.metrics);
  await runOperatorPart(options, {
    guard: 'file-integrity',
    lease: { namespace, name: clusterLease },
    namespaceOf: 'the lease',
    work: (identity, term) => work(options, identity, counts, term),
  });
}

/** While it leads. */
async function work(
  options: FileIntegrityClusterOptions,
  identity: string,
  counts: ClusterMetrics,
  term: AbortSignal,
): Promise<void> {
  const { client, logger, metrics: shared, agents = deployedAgents, reports, clock = systemClock } = options;
  const { controllers: metrics, reflectors } = shared ?? {};
  const stop = new AbortController();
  const signal = AbortSignal.any([term, stop.signal]);
  const recorder = new EventRecorder({
    client,
    controller: 'rampart.dev/file-integrity',
    instance: identity.slice(0, 128),
    logger,
    limits: eventLimits,
  });
  const caches = newCaches(logger);
  const { groups, nodes, results, active, kept, secrets, bindings } = caches;
  const all = [nodes, results, active, kept, secrets, bindings];
  using parts = new DisposableStack();
  const reflect = <T extends KubeObject>(
    part: string,
    cache: IndexedCache<T>,
    more: {
      readonly transform?: (object: T) => T;
      readonly labelSelector?: string;
      readonly fieldSelector?: string;
    } = {},
  ): Promise<void> => {
    const name = `file-integrity-${part}`;
    parts.use(options.health?.ready(name, () => (cache.isSynced ? undefined : 'not listed yet')));
    return runReflector({
      client,
      cache,
      signal,
      logger,
      name,
      ...more,
      ...(reflectors && { metrics: reflectors }),
    });
  };
  counts.forgetNodes();
  for (const { statuses } of groups) {
    parts.use(
      statuses.subscribe(({ type, key, object }) =>
        counts.node(`${statuses.type.group} ${key}`, type === 'deleted' ? undefined : object),
      ),
    );
  }
  const context: ClusterContext = {
    client,
    caches,
    recorder,
    reports,
    agents,
    counts,
    signal,
    logger,
    metrics,
    clock,
  };
  try {
    await allOrNone(stop, [
      ...groups.flatMap(({ types: { group }, integrities, statuses }) => [
        reflect(`fileintegrities.${group}`, integrities),
        reflect(`nodestatuses.${group}`, statuses, { transform: slimStatus }),
      ]),
      reflect('nodes', nodes, { transform: slimNode }),
      reflect('results', results, { labelSelector: names.logLabel, transform: withoutData }),
      reflect('active', active, { labelSelector: names.aideConfLabel }),
      reflect('kept', kept, { labelSelector: names.resultLogLabel, transform: withoutData }),
      reflect('secrets', secrets, {
        fieldSelector: `metadata.name=${baselineKeySecret}`,
        transform: withoutData,
      }),
      reflect('bindings', bindings, { fieldSelector: `metadata.name=${agentRole}` }),
      whenSynced([...groups.flatMap((group) => [group.integrities, group.statuses]), ...all], signal, () =>
        allOrNone(stop, [
          runIntegrityController(context),
          runResultController(context),
          runNamespaceController(context),
        ]),
      ),
    ]);
  } finally {
    counts.forgetNodes();
    await recorder.stop(AbortSignal.timeout(STOP_MS));
  }
}
