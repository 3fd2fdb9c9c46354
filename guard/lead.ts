/** Work that guards do once per cluster: while this process holds the operator's lease. */
import type { KubeClient } from '../lib/kube/client/client.ts';
import { isAlreadyExists } from '../lib/kube/client/client-errors.ts';
import { type Clock, sleep, systemClock } from '../lib/time/clock.ts';
import { aborted, orAborted } from '../lib/time/abort.ts';
import { runElection } from '../lib/kube/leader-election/leader-election.ts';
import { leaseStore } from '../lib/kube/leader-election/lease-store.ts';
import { namespaces } from '../lib/kube/object/object.ts';
import type { Logger } from '../lib/telemetry/log.ts';
import { agentGuardsAnnotation } from './agent-lease-names.ts';
import type { GuardStates } from './guard-states.ts';
import { operatorLease } from './operator-lease.ts';
import { systemNamespace } from './guard.ts';

interface LeadershipOptions {
  readonly client: KubeClient;
  readonly logger: Logger;
  readonly identity: string;
  /** The states of this process's guards; each renewal writes them into the lease. */
  readonly states: Pick<GuardStates, 'text'>;
  /** Work that is done once for all guards, in each term. */
  readonly upkeep?: (term: AbortSignal) => Promise<void>;
  readonly clock?: Clock | undefined;
}

const NAMESPACE_RETRY_MS = 2000;
/**
 * One lease for all guards, so that the writes of an idle operator do not grow with the number of guards: 25 renewals a minute. A successor
 * sees a renewal up to one retry period late, waits for the lease duration, and then tries again within another period: 9 s + 2 * 2.9 s is
 * below 15 s.
 */
const times = { leaseDurationSeconds: 9, renewDeadlineMs: 8000, retryPeriodMs: 2400 } as const;

/** The operator's lease, for all guards of a process. Disposing of it ends the work, then gives the lease back. */
export class Leadership implements AsyncDisposable {
  readonly #options: LeadershipOptions;
  readonly #stop = new AbortController();
  readonly #working = new Set<Promise<void>>();
  #term = Promise.withResolvers<AbortSignal>();
  #election: Promise<void> | undefined;
  #leader = '';

  constructor(options: LeadershipOptions) {
    this.#options = options;
  }

  /** Empty while the leader is unknown. */
  get leader(): string {
    return this.#leader;
  }

  /**
   * Runs `work` in each term of this process, until `signal` aborts or the work ends by itself.
   *
   * @param work - Runs until its signal aborts.
   * @throws what `work` throws. An unreachable API ends nothing.
   */
  async lead(signal: AbortSignal, work: (term: AbortSignal) => Promise<void>): Promise<void> {
    this.#election ??= this.#run();
    while (!signal.aborted) {
      const term = await orAborted(this.#term.promise, signal).catch(() => undefined);
      if (term === undefined) return;
      const working = work(AbortSignal.any([signal, term]));
      // The lease is given back once the work has ended, with or without an error.
      const settled = working.catch(() => undefined);
      this.#working.add(settled);
      try {
        await working;
        if (!term.aborted) return;
      } catch (error) {
        // Errors after the request to end are ignored.
        if (!term.aborted && !signal.aborted) throw error;
      } finally {
        this.#working.delete(settled);
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#election;
  }

  async #run(): Promise<void> {
    const { client, logger, identity, states, upkeep, clock } = this.#options;
    const { signal } = this.#stop;
    await ensureSystemNamespace({ client, logger, clock, signal });
    if (signal.aborted) return;
    await runElection({
      ...times,
      lock: leaseStore(client, { namespace: systemNamespace, name: operatorLease }, () => ({
        annotations: { [agentGuardsAnnotation]: states.text() },
      })),
      identity,
      signal,
      logger,
      onNewLeader: (seen) => void (this.#leader = seen),
      lead: async (term) => {
        if (term.aborted) return;
        const next = (): void => void (this.#term = Promise.withResolvers());
        term.addEventListener('abort', next, { once: true });
        this.#term.resolve(term);
        await Promise.all([aborted(term), upkeep?.(term)]);
        await Promise.all(this.#working);
      },
      clock,
    });
  }
}

/** Retries until the namespace of all leases exists, or `signal` aborts. */
export async function ensureSystemNamespace({
  client,
  signal,
  logger,
  clock = systemClock,
}: Pick<LeadershipOptions, 'client' | 'logger' | 'clock'> & { readonly signal: AbortSignal }): Promise<void> {
  const name = systemNamespace;
  while (!signal.aborted) {
    try {
      if (await exists(client, name, signal)) return;
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

async function exists(client: KubeClient, name: string, signal: AbortSignal): Promise<boolean> {
  return await client.get(namespaces, { name }, { signal }).then(
    () => true,
    () => false,
  );
}
