/** The guard's part in the operator, once per cluster. */
import type { ClusterContext, GuardContext } from '../../../guard/context.ts';
import { deleteObjectsOfGoneNodes } from '../../../guard/gone-nodes.ts';
import type { ClusterPart } from '../../../guard/guard.ts';
import { allOrNone, whenSynced } from '../../../lib/kube/controller/run-parts.ts';
import { dataQuery, nodeOfStatus, nodeQuery, nodeStatusQuery, podQuery, policyQuery } from '../caches.ts';
import { keepDataNamespace } from './data-namespace.ts';
import { runPodController } from './pod-controller.ts';
import { runPolicyController } from './policy-controller.ts';
import type { FileAccessOptions } from '../options.ts';
import type { PolicyScope } from '../policy/policy-scope.ts';

export const fileAccessCluster: ClusterPart<FileAccessOptions> = (context, { policyScope }) =>
  runFileAccessCluster(context, { policyScope });

export interface FileAccessClusterOptions {
  readonly graceMs?: number;
  readonly releaseMs?: number;
  readonly policyScope?: PolicyScope;
}

/**
 * Runs the pod controller and maintains policies while this process holds the lease, until the signal aborts.
 *
 * @throws errors that a retry cannot fix, such as `INPUT` for invalid options; not if the API cannot be reached.
 */
export async function runFileAccessCluster(
  context: ClusterContext,
  options: FileAccessClusterOptions = {},
): Promise<void> {
  await context.lead((term) => work(term, options));
}

async function work(
  context: GuardContext,
  { graceMs, releaseMs, policyScope }: FileAccessClusterOptions,
): Promise<void> {
  const { client, logger } = context;
  const stop = new AbortController();
  const signal = AbortSignal.any([context.signal, stop.signal]);
  const recorder = context.recorder();
  const data = context.cache(dataQuery(['policy', 'node', 'pod']), 'kivedata');
  const policies = context.cache(policyQuery, 'kivepolicies');
  const pods = context.cache(podQuery, 'pods');
  const nodes = context.cache(nodeQuery, 'nodes');
  const statuses = context.cache(nodeStatusQuery, 'kivenodestatuses');
  const controllers = { client, signal, logger, metrics: context.metrics?.controllers };
  await allOrNone(stop, [
    keepDataNamespace({ ...context, signal }),
    runPodController(controllers, { data, pods, nodes, policies, policyScope, graceMs, releaseMs }),
    whenSynced([policies, data, nodes, statuses], signal, () =>
      allOrNone(stop, [
        runPolicyController({ ...controllers, policies, data, nodes, statuses, policyScope, recorder }),
        deleteObjectsOfGoneNodes({
          ...{ ...controllers, name: 'file-access-gone-statuses', nodes },
          kinds: [{ cache: statuses, nodeOf: nodeOfStatus }],
        }),
      ]),
    ),
  ]);
}
