/**
 * What a guard runs once per cluster: its part of the operator. It works while it holds a lease of its own.
 *
 * @module
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';

import type { Health } from '../observe/health.ts';
import type { Logger } from '../observe/log.ts';
import { type Clock, sleep, systemClock } from '../time/clock.ts';
import type { KubeClient } from './client.ts';
import { isAlreadyExists, isForbidden } from './client-errors.ts';
import { runElection } from './leader-election.ts';
import { leaseStore } from './lease-store.ts';
import { namespaces } from './object.ts';
import type { SharedMetrics } from './shared-metrics.ts';

/** What the part of every guard takes. */
export interface OperatorPartOptions {
  readonly client: KubeClient;
  /** Stops it: the work is ended and the lease given back. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly metrics?: SharedMetrics;
  readonly health?: Health;
  /** In the lease and in events. Default: the host's name and a random part. */
  readonly identity?: string;
  readonly clock?: Clock;
}

/** What one guard brings. */
export interface OperatorPart {
  /** In readiness it is `<guard>-lease`. */
  readonly guard: string;
  readonly lease: { readonly namespace: string; readonly name: string };
  /** What the namespace of the lease is for, in logs. */
  readonly namespaceOf: string;
  /** While it leads, until `term` aborts. */
  readonly work: (identity: string, term: AbortSignal) => Promise<void>;
}

const NAMESPACE_RETRY_MS = 2000;

/**
 * Does the work of a part while this process holds its lease, until `signal` aborts. Creates the namespace of the lease where it
 * is missing.
 *
 * @throws what cannot be mended by trying again, e.g. `INPUT` for options that cannot work. That the API cannot be
 *   reached is not among it.
 */
export async function runOperatorPart(
  options: OperatorPartOptions,
  { guard, lease, namespaceOf, work }: OperatorPart,
): Promise<void> {
  const { client, signal, logger, identity = `${hostname()}_${randomUUID()}` } = options;
  let leader = '';
  // Also of one that does not lead: it is ready to.
  using _part = options.health?.ready(`${guard}-lease`, () =>
    leader === '' ? 'nobody is known to hold it yet' : undefined,
  );
  await ensureNamespace(options, lease.namespace, namespaceOf);
  if (signal.aborted) return;
  await runElection({
    lock: leaseStore(client, lease),
    identity,
    signal,
    logger,
    onNewLeader: (seen) => void (leader = seen),
    lead: (term) => work(identity, term),
    ...(options.clock && { clock: options.clock }),
  });
}

/** Tries until it is there, or `signal` aborts. */
async function ensureNamespace(
  { client, signal, logger, clock = systemClock }: OperatorPartOptions,
  name: string,
  namespaceOf: string,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await client.create(namespaces, { metadata: { name } }, { signal });
      logger.info({ namespace: name }, 'created the namespace');
      return;
    } catch (error) {
      if (isAlreadyExists(error)) return;
      if (signal.aborted) return;
      // Who may create none is told so before whether it is there.
      if (isForbidden(error) && (await isThere(client, name, signal))) return;
      logger.warn({ err: error }, `cannot see to the namespace of ${namespaceOf}; trying again`);
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
