/**
 * What the operator runs for this guard, once per cluster.
 *
 * @module
 */
import { EventRecorder } from '../../shared/kube/event-recorder.ts';
import type { IndexedCache } from '../../shared/kube/indexed-cache.ts';
import type { KubeObject } from '../../shared/kube/object.ts';
import { type OperatorPartOptions, runOperatorPart } from '../../shared/kube/operator-part.ts';
import { runReflector } from '../../shared/kube/reflector.ts';
import { allOrNone, whenSynced } from '../../shared/kube/run-parts.ts';
import { dataCache, nodeCache, podCache, policyCache, slimNode, slimPod } from './caches.ts';
import { kiveDataNamespace } from './kive-data.ts';
import { runPodController } from './pod-controller.ts';
import { runPolicyController } from './policy-controller.ts';

export interface FileAccessClusterOptions extends OperatorPartOptions {
  /** See PodControllerOptions. */
  readonly graceMs?: number;
  readonly releaseMs?: number;
}

/** Kive's name for the lease of its pod controller. */
export const clusterLease = 'kive';

const STOP_MS = 2000;

/**
 * Runs the pod controller and looks after the policies, while this process holds the lease `kive` in `kivebpf-system`;
 * until `signal` aborts. Creates that namespace where it is missing.
 *
 * @throws what cannot be mended by trying again, e.g. `INPUT` for options that cannot work. That the API cannot be
 *   reached is not among it.
 */
export async function runFileAccessCluster(options: FileAccessClusterOptions): Promise<void> {
  await runOperatorPart(options, {
    guard: 'file-access',
    lease: { namespace: kiveDataNamespace, name: clusterLease },
    namespaceOf: 'KiveData',
    work: (identity, term) => work(options, identity, term),
  });
}

/** While it leads. */
async function work(options: FileAccessClusterOptions, identity: string, term: AbortSignal): Promise<void> {
  const { client, logger, metrics: shared, graceMs, releaseMs } = options;
  const { controllers: metrics, reflectors } = shared ?? {};
  const stop = new AbortController();
  const signal = AbortSignal.any([term, stop.signal]);
  const recorder = new EventRecorder({
    client,
    controller: 'rampart.dev/file-access',
    instance: identity.slice(0, 128),
    logger,
  });
  const data = dataCache(['policy', 'node', 'pod'], logger);
  const [policies, pods, nodes] = [policyCache(logger), podCache(logger), nodeCache(logger)];
  using parts = new DisposableStack();
  for (const cache of [policies, data, pods, nodes]) {
    const ask = (): string | undefined => (cache.isSynced ? undefined : 'not listed yet');
    parts.use(options.health?.ready(`file-access-${cache.type.plural}`, ask));
  }
  const reflect = <T extends KubeObject>(
    cache: IndexedCache<T>,
    more: { readonly transform?: (object: T) => T; readonly namespace?: string } = {},
  ): Promise<void> =>
    runReflector({
      client,
      cache,
      signal,
      logger,
      name: `file-access-${cache.type.plural}`,
      ...more,
      ...(reflectors && { metrics: reflectors }),
    });
  const common = { client, data, nodes, policies, signal, logger, metrics };
  try {
    await allOrNone(stop, [
      reflect(policies),
      reflect(data, { namespace: kiveDataNamespace }),
      reflect(pods, { transform: slimPod }),
      reflect(nodes, { transform: slimNode }),
      runPodController({
        ...common,
        pods,
        ...(graceMs !== undefined && { graceMs }),
        ...(releaseMs !== undefined && { releaseMs }),
      }),
      whenSynced([policies, data, nodes], signal, () => runPolicyController({ ...common, recorder })),
    ]);
  } finally {
    await recorder.stop(AbortSignal.timeout(STOP_MS));
  }
}
