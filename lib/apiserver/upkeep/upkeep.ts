/**
 * The server's own controllers: they delete the content of namespaces, collect garbage and expire old events. No other
 * controller of Kubernetes runs.
 */
import type { Clock } from '../../time/clock.ts';
import type { ControllerMetrics } from '../../kube/controller/controller-metrics.ts';
import { runController } from '../../kube/controller/controller.ts';
import { WorkQueue } from '../../kube/controller/workqueue.ts';
import type { Logger } from '../../telemetry/log.ts';
import type { Registry } from '../resources/registry.ts';
import type { Store } from '../store/store.ts';
import { EventExpiry } from './event-expiry.ts';
import { GarbageCollector } from './garbage-collector.ts';
import { NamespaceDeletion } from './namespace-deletion.ts';
import { ObjectFollower } from './object-follower.ts';
import { hasCode, VerbCalls, type VerbHandler } from './verb-calls.ts';

interface UpkeepOptions {
  readonly store: Store;
  readonly registry: Registry;
  readonly verbs: VerbHandler;
  /** How long events are kept. Default: an hour. */
  readonly eventTtlMs?: number;
  readonly logger?: Logger | undefined;
  readonly metrics?: ControllerMetrics | undefined;
  readonly clock?: Clock | undefined;
}

/** Counters since the start, and the numbers of objects kept in memory. */
export interface UpkeepCounts {
  /** Number of objects whose owners are tracked. */
  readonly dependents: number;
  readonly dependentsDeleted: number;
  readonly referencesRemoved: number;
  readonly namespacesTerminating: number;
  readonly namespacesFinalized: number;
  readonly eventsKept: number;
  readonly eventsExpired: number;
  /** Number of lists, watches and deletions of events that failed and were retried. */
  readonly failures: number;
}

/** Number of objects reconciled concurrently, whose writes share transactions. */
const workers = 32;
/** Short at first: most failures are conflicts with a change that was just made. */
const backoff = { baseMs: 5, maxMs: 30_000 };
const retryLimit = { perSecond: 100, burst: 500 };

export class Upkeep {
  readonly #options: UpkeepOptions;
  readonly #garbage: GarbageCollector;
  readonly #garbageQueue: WorkQueue;
  readonly #namespaces: NamespaceDeletion;
  readonly #namespaceQueue: WorkQueue;
  readonly #events: EventExpiry;
  readonly #follower: ObjectFollower;

  constructor(options: UpkeepOptions) {
    this.#options = options;
    const { store, registry, logger, clock } = options;
    const queue = (): WorkQueue => new WorkQueue({ backoff, retryLimit, clock });
    this.#garbageQueue = queue();
    this.#namespaceQueue = queue();
    this.#garbage = new GarbageCollector({
      store,
      registry,
      calls: this.#calls('generic-garbage-collector'),
      queue: this.#garbageQueue,
      caughtUp: (signal) => this.#follower.caughtUp(signal),
      logger,
    });
    this.#namespaces = new NamespaceDeletion({
      store,
      registry,
      calls: this.#calls('namespace-controller'),
      queue: this.#namespaceQueue,
    });
    this.#events = new EventExpiry({
      store,
      registry,
      calls: this.#calls('event-expiry'),
      ttlMs: options.eventTtlMs,
      logger,
      clock,
    });
    const listeners = [this.#garbage, this.#namespaces, this.#events];
    this.#follower = new ObjectFollower({
      store,
      registry,
      logger,
      clock,
      listener: {
        object: (type, object) => {
          for (const listener of listeners) listener.object(type, object);
        },
        listBegins: (storeName) => this.#garbage.listBegins(storeName),
        listEnds: (storeName) => this.#garbage.listEnds(storeName),
      },
    });
  }

  get counts(): UpkeepCounts {
    return {
      dependents: this.#garbage.size,
      dependentsDeleted: this.#garbage.deleted,
      referencesRemoved: this.#garbage.orphaned,
      namespacesTerminating: this.#namespaces.terminating,
      namespacesFinalized: this.#namespaces.finished,
      eventsKept: this.#events.size,
      eventsExpired: this.#events.expired,
      failures: this.#follower.failures + this.#events.failures,
    };
  }

  /** Creates the namespaces that every cluster has. Call before the server is ready. */
  prepare(signal: AbortSignal): Promise<void> {
    const { store, registry } = this.#options;
    return createDefaultNamespaces({ store, registry, calls: this.#calls('rampart') }, signal);
  }

  /** Works until the signal aborts; resolves when all controllers have ended. */
  async run(signal: AbortSignal): Promise<void> {
    const { registry, logger, metrics, clock } = this.#options;
    const common = { signal, logger, metrics, clock };
    using _kinds = registry.onChange(() => this.#garbage.kindsChanged());
    await Promise.all([
      this.#follower.run(signal),
      this.#events.run(signal),
      runController({
        ...common,
        name: 'garbage-collector',
        queue: this.#garbageQueue,
        reconcile: this.#garbage.reconcile,
        workers,
      }),
      runController({
        ...common,
        name: 'namespace-deletion',
        queue: this.#namespaceQueue,
        reconcile: this.#namespaces.reconcile,
        workers: 4,
      }),
    ]);
  }

  #calls(account: string): VerbCalls {
    return new VerbCalls(this.#options.verbs, `system:serviceaccount:kube-system:${account}`);
  }
}

const defaultNamespaces: readonly string[] = ['default', 'kube-node-lease', 'kube-public', 'kube-system'];

async function createDefaultNamespaces(
  {
    store,
    registry,
    calls,
  }: { readonly store: Store; readonly registry: Registry; readonly calls: VerbCalls },
  signal: AbortSignal,
): Promise<void> {
  const resource = registry.findStored('namespaces');
  if (resource === undefined) return;
  const missing = defaultNamespaces.filter((name) => store.get(resource.storeName, '', name) === undefined);
  await Promise.all(
    missing.map(async (name) => {
      try {
        const object = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
        await calls.create(resource, '', object, signal);
      } catch (error) {
        if (!hasCode(error, 409)) throw error;
      }
    }),
  );
}
