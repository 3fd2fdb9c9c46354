/** What a guard does once per cluster: it works while this process holds the guard's lease. */
import type { KubeClient } from '../lib/kube/client/client.ts';
import { isAlreadyExists } from '../lib/kube/client/client-errors.ts';
import { type Clock, sleep, systemClock } from '../lib/time/clock.ts';
import { runElection } from '../lib/kube/leader-election/leader-election.ts';
import { leaseStore } from '../lib/kube/leader-election/lease-store.ts';
import { namespaces } from '../lib/kube/object/object.ts';
import type { Logger } from '../lib/telemetry/log.ts';
import type { PartHealth } from './context.ts';
import { systemNamespace } from './guard.ts';

interface LeadOptions {
  readonly client: KubeClient;
  /** Stops it: the work is ended and the lease given back. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
  /** With the part `lease`. */
  readonly health: Pick<PartHealth, 'ready'>;
  readonly identity: string;
  /** Its name, in {@link systemNamespace}. */
  readonly lease: string;
  readonly clock?: Clock | undefined;
}

const NAMESPACE_RETRY_MS = 2000;

/**
 * Works while this process holds the lease, until `signal` aborts. Creates the namespace of the lease where it is missing.
 *
 * @param work - Until its signal aborts.
 * @throws what `work` throws. That the API cannot be reached ends nothing.
 */
export async function lead(options: LeadOptions, work: (term: AbortSignal) => Promise<void>): Promise<void> {
  const { client, signal, logger, health, identity, lease, clock } = options;
  let leader = '';
  // Also of one that does not lead: it is ready to.
  using _part = health.ready('lease', () => (leader === '' ? 'its holder is not known yet' : undefined));
  await ensureSystemNamespace(options);
  if (signal.aborted) return;
  await runElection({
    lock: leaseStore(client, { namespace: systemNamespace, name: lease }),
    identity,
    signal,
    logger,
    onNewLeader: (seen) => void (leader = seen),
    lead: work,
    clock,
  });
}

/** Tries until the namespace of all leases is there, or `signal` aborts. */
export async function ensureSystemNamespace({
  client,
  signal,
  logger,
  clock = systemClock,
}: Pick<LeadOptions, 'client' | 'signal' | 'logger' | 'clock'>): Promise<void> {
  const name = systemNamespace;
  while (!signal.aborted) {
    try {
      if (await isThere(client, name, signal)) return;
      await client.create(namespaces, { metadata: { name } }, { signal });
      logger.info({ namespace: name }, 'created the namespace');
      return;
    } catch (error) {
      if (isAlreadyExists(error)) return;
      if (signal.aborted) return;
      logger.warn({ err: error }, `cannot create the namespace ${name}; retrying`);
    }
    await sleep(clock, NAMESPACE_RETRY_MS, signal).catch(() => undefined);
  }
}

async function isThere(client: KubeClient, name: string, signal: AbortSignal): Promise<boolean> {
  return await client.get(namespaces, { name }, { signal }).then(
    () => true,
    () => false,
  );
}
