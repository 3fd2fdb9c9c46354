/**
 * What the operator runs for this guard, once per cluster.
 *
 * @module
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';

import type { KubeClient } from '../../shared/kube/client.ts';
import { isAlreadyExists, isForbidden } from '../../shared/kube/client-errors.ts';
import { sleep, systemClock } from '../../shared/kube/clock.ts';
import { EventRecorder } from '../../shared/kube/event-recorder.ts';
import type { IndexedCache } from '../../shared/kube/indexed-cache.ts';
import { runElection } from '../../shared/kube/leader-election.ts';
import { leaseStore } from '../../shared/kube/lease-store.ts';
import { type KubeObject, namespaces } from '../../shared/kube/object.ts';
import type { OperatorPartOptions } from '../../shared/kube/operator-part.ts';
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

const NAMESPACE_RETRY_MS = 2000;
const STOP_MS = 2000;

/**
 * Runs the pod controller and looks after the policies, while this process holds the lease `kive` in `kivebpf-system`;
 * until `signal` aborts. Creates that namespace where it is missing.
 *
 * @throws what cannot be mended by trying again, e.g. `INPUT` for options that cannot work. That the API cannot be
 *   reached is not among it.
 */
export async function runFileAccessCluster(options: FileAccessClusterOptions): Promise<void> {
  const { client, signal, logger, identity = `${hostname()}_${randomUUID()}` } = options;
  let leader = '';
  // Also of one that does not lead: it is ready to.
  using _part = options.health?.ready('file-access-lease', () =>
    leader === '' ? 'nobody is known to hold it yet' : undefined,
  );
  await ensureNamespace(options);
  if (signal.aborted) return;
  await runElection({
    lock: leaseStore(client, { namespace: kiveDataNamespace, name: clusterLease }),
    identity,
    signal,
    logger,
    onNewLeader: (seen) => void (leader = seen),
    lead: (term) => work(options, identity, term),
    ...(options.clock && { clock: options.clock }),
  });
}

/** Tries until it is there, or `signal` aborts. */
async function ensureNamespace({
  client,
  signal,
  logger,
  clock = systemClock,
}: FileAccessClusterOptions): Promise<void> {
  while (!signal.aborted) {
    try {
      await client.create(namespaces, { metadata: { name: kiveDataNamespace } }, { signal });
      logger.info({ namespace: kiveDataNamespace }, 'created the namespace');
      return;
    } catch (error) {
      if (isAlreadyExists(error)) return;
      if (signal.aborted) return;
      // Who may create none is told so before whether it is there.
      if (isForbidden(error) && (await isThere(client, signal))) return;
      logger.warn({ err: error }, 'cannot see to the namespace of KiveData; trying again');
    }
    await sleep(clock, NAMESPACE_RETRY_MS, signal).catch(() => undefined);
  }
}

async function isThere(client: KubeClient, signal: AbortSignal): Promise<boolean> {
  return await client.get(namespaces, { name: kiveDataNamespace }, { signal }).then(
    () => true,
    () => false,
  );
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
