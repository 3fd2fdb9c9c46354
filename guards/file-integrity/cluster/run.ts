/** The guard's part in the operator, once per cluster. */
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

/** The account of the agents, as in deploy/. */
const agents: AgentAccount = { namespace: systemNamespace, serviceAccount: 'rampart-agent' };

/**
 * Events about all nodes are on their FileIntegrity, so the usual 25 events about one object are not enough.
 * Events about one node are folded after some.
 */
const eventLimits = { burst: 1000, perSecond: 2, remembered: 8192 };

/**
 * Looks after FileIntegrity objects of both groups and takes the results of the agents, while this process holds the lease;
 * until the signal aborts.
 *
 * @throws errors that another try cannot fix, e.g. `INPUT` for options that cannot work; not if the API cannot be
 *   reached.
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
    // A cache that already existed does not report its objects.
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
