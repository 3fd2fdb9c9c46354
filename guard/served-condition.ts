/** Reports in the status of users' objects on which nodes their guard cannot run. */
import { orUndefined } from '../lib/kube/client/client-errors.ts';
import { type Condition, findCondition, setCondition } from '../lib/kube/object/conditions.ts';
import { done, type Result, runController } from '../lib/kube/controller/controller.ts';
import { isDeleting } from '../lib/kube/controller/finalizers.ts';
import type { CacheChange } from '../lib/kube/cache/indexed-cache.ts';
import { keyQueue } from '../lib/kube/controller/key-queue.ts';
import { type KubeObject, type Lease, leases, objectKey } from '../lib/kube/object/object.ts';
import { allOrNone } from '../lib/kube/controller/run-parts.ts';
import { agentGuardsAnnotation, agentLeaseLabel, readAgentLease } from './agent-lease-names.ts';
import type { GuardContext } from './context.ts';
import { type Guard, systemNamespace } from './guard.ts';

/** The condition: `False` if an agent says that it cannot run the guard, `True` once all can again. */
const servedCondition = 'Served';

const NAMED_NODES = 5;

interface Guarded extends KubeObject {
  readonly status?: { readonly conditions?: readonly Condition[] };
}

/** The part of an agent's lease that matters here: without the time of its renewal. */
function agentFacts(lease: Lease): Lease {
  const { spec: _renewals, ...kept } = lease;
  return kept;
}

/** Maintains the condition on the objects that users wrote for a guard, until the signal of `context` aborts. */
export async function followServed(
  { guarded = [], name: guard }: Pick<Guard, 'guarded' | 'name'>,
  context: GuardContext,
): Promise<void> {
  if (guarded.length === 0) return;
  const { signal } = context;
  const agents = context.cache<Lease>({
    type: leases,
    namespace: systemNamespace,
    labelSelector: agentLeaseLabel,
    projection: agentFacts,
  });
  const unavailable = new UnavailableNodes(guard);
  let message = '';
  const queues = new Set<() => void>();
  using _agents = agents.subscribe((change) => {
    if (!unavailable.take(change)) return;
    message = unavailable.text();
    for (const addAll of queues) addAll();
  });
  // If another guard already uses the cache, no events come for leases that are already in it.
  for (const lease of agents.list())
    unavailable.take({ type: 'added', key: objectKey(lease), object: lease });
  message = unavailable.text();
  const stop = new AbortController();
  await allOrNone(
    stop,
    guarded.map(async (type) => {
      const objects = context.cache<Guarded>({ type });
      using queue = keyQueue();
      const addAll = (): void => {
        for (const key of objects.keys()) queue.add(key);
      };
      queues.add(addAll);
      using _objects = objects.subscribe(({ key }) => void (message !== '' && queue.add(key)));
      void Promise.all([agents.synced, objects.synced]).then(addAll);
      const reconcile = async (key: string, ofKey: AbortSignal): Promise<Result> => {
        const object = objects.get(key);
        if (object === undefined || isDeleting(object) || !agents.isSynced) return done;
        const { namespace, name = '', generation, resourceVersion } = object.metadata;
        const before = object.status?.conditions;
        // The object has no condition, and needs none.
        if (message === '' && findCondition(before, servedCondition) === undefined) return done;
        const conditions = setCondition(before, {
          type: servedCondition,
          ...(message === ''
            ? { status: 'True', reason: 'AllNodes', message: '' }
            : { status: 'False', reason: 'GuardUnavailable', message }),
          observedGeneration: generation,
        });
        if (conditions === before) return done;
        const target = { namespace, name, subresource: 'status' };
        // With the resourceVersion: the patch replaces the whole list, and others write conditions too.
        const body = { metadata: { resourceVersion }, status: { conditions } };
        await orUndefined(context.client.patch(type, target, { type: 'merge', body }, { signal: ofKey }));
        return done;
      };
      await runController({
        name: `${guard}-served-${type.plural}`,
        ...{ queue, reconcile, signal, logger: context.logger },
        metrics: context.metrics?.controllers,
      });
    }),
  );
}

/** `previous` is undefined if it is not known. */
type LeaseChange = Omit<CacheChange<Lease>, 'previous'> & { readonly previous?: Lease | undefined };

/** On which nodes a guard cannot work, and why. Agents keep renewing their leases: a renewal costs only a comparison of that lease. */
class UnavailableNodes {
  readonly #guard: string;
  /** Keyed by the key of the agent's lease. */
  readonly #texts = new Map<string, string>();

  constructor(guard: string) {
    this.#guard = guard;
  }

  /** @returns whether anything has changed. */
  take({ type, key, object, previous }: LeaseChange): boolean {
    if (type === 'deleted') return this.#texts.delete(key);
    const said = object.metadata.annotations?.[agentGuardsAnnotation];
    if (said === previous?.metadata.annotations?.[agentGuardsAnnotation]) return false;
    const agent = readAgentLease(object);
    const state = agent?.guards.get(this.#guard);
    if (state?.state !== 'unavailable') return this.#texts.delete(key);
    const text = `node ${agent?.nodeName}: ${state.reason}`;
    if (this.#texts.get(key) === text) return false;
    this.#texts.set(key, text);
    return true;
  }

  /** A sentence with the nodes and reasons; empty if the guard can work on all nodes. */
  text(): string {
    const more = this.#texts.size - NAMED_NODES;
    const shown = [...this.#texts.values()].toSorted().slice(0, NAMED_NODES).join('; ');
    return more > 0 ? `${shown}; and ${more} more` : shown;
  }
}
