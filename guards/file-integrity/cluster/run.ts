/** The guard's part of the operator; it runs once for each cluster. */
import type { GuardContext } from '../../../guard/context.ts';
import { type ClusterPart, systemNamespace } from '../../../guard/guard.ts';
import { systemClock } from '../../../lib/time/clock.ts';
import { allOrNone, whenSynced } from '../../../lib/kube/controller/run-parts.ts';
import { openCaches } from './caches.ts';
import type { AgentAccount, ClusterContext } from './context.ts';
import { runIntegrityController } from './integrity-controller.ts';
import { ClusterMetrics } from './metrics.ts';
import { runNamespaceController } from './namespace-controller.ts';
import { runResultController } from './result-controller.ts';

/** The ServiceAccount of the agents, as in deploy/. */
const agents: AgentAccount = { namespace: systemNamespace, serviceAccount: 'rampart-agent' };

/**
 * Events about all nodes are sent for their FileIntegrity, so the usual limit of 25 events for one object is too low.
 * Repeated events about one node are folded.
 */
const eventLimits = { burst: 1000, perSecond: 2, remembered: 8192 };

/**
 * Handles FileIntegrity objects of both groups and the results of agents while this process holds the lease, until the
 * signal aborts.
 *
 * @throws errors that a retry cannot fix, e.g. `INPUT` for options that cannot work; does not throw if the API cannot
 *   be reached.
 */
export const fileIntegrityCluster: ClusterPart = async (context) => {
  const counts = new ClusterMetrics();
  if (context.metrics !== undefined) counts.register(context.metrics.metrics);
  await context.lead((term) => work(term, context.reports, counts));
};

async function work(
  term: GuardContext,
  reports: ClusterContext['reports'],
  counts: ClusterMetrics,
): Promise<void> {
  const { client, logger } = term;
  const stop = new AbortController();
  const signal = AbortSignal.any([term.signal, stop.signal]);
  const caches = openCaches(term);
  const { groups, nodes, results, active, kept, secrets, bindings } = caches;
  using parts = new DisposableStack();
  counts.forgetNodes();
  for (const { statuses } of groups) {
    parts.use(
      statuses.subscribe(({ type, key, object }) =>
        counts.node(`${statuses.type.group} ${key}`, type === 'deleted' ? undefined : object),
      ),
    );
    // A cache that already existed does not report the objects it has.
    for (const key of statuses.keys()) counts.node(`${statuses.type.group} ${key}`, statuses.get(key));
  }
  const context: ClusterContext = {
    client,
    caches,
    recorder: term.recorder(eventLimits),
    reports,
    agents,
    counts,
    signal,
    logger,
    metrics: term.metrics?.controllers,
    clock: systemClock,
  };
  try {
    await whenSynced(
      [
        ...groups.flatMap((group) => [group.integrities, group.statuses]),
        ...[nodes, results, active, kept, secrets, bindings],
      ],
      signal,
      () =>
        allOrNone(stop, [
          runIntegrityController(context),
          runResultController(context),
          runNamespaceController(context),
        ]),
    );
  } finally {
    counts.forgetNodes();
  }
}
