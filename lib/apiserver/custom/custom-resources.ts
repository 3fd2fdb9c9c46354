/** Serves the CustomResourceDefinitions in the store, and reports the outcome in their status. */
import { objectAt, objectsAt } from '../../json/fields.ts';
import type { Clock } from '../../time/clock.ts';
import type { ControllerMetrics } from '../../kube/controller/controller-metrics.ts';
import { done, requeueAfter, type Result, runController } from '../../kube/controller/controller.ts';
import { WorkQueue } from '../../kube/controller/workqueue.ts';
import type { Logger } from '../../telemetry/log.ts';
import type { Registry } from '../resources/registry.ts';
import type { ResourceNames } from '../resources/resource.ts';
import { deepEqual, type JsonObject } from '../../json/json.ts';
import type { ChangeType, StoredObject } from '../store/object.ts';
import type { Store } from '../store/store.ts';
import { ObjectFollower } from '../upkeep/object-follower.ts';
import { VerbCalls, type VerbHandler } from '../upkeep/verb-calls.ts';
import { approvalCondition } from './approval.ts';
import { type NewCondition, withCondition } from './crd-conditions.ts';
import { cleanupFinalizer, type Crd, crdStoreName, isTrue, readCrd } from './crd.ts';
import { nameCrd, takenNames, type TakenNames } from './naming.ts';
import { ServedDefinitions } from './served-definitions.ts';
import { setImmediate as turn } from 'node:timers/promises';
import { messageOf } from '../../errors/errors.ts';
import { resourcesOfCrd, type SchemaModels } from './custom-resource.ts';
import type { StoredForm } from './stored-form.ts';

interface CustomResourcesOptions {
  readonly store: Store;
  readonly registry: Registry;
  readonly verbs: VerbHandler;
  readonly logger?: Logger | undefined;
  readonly metrics?: ControllerMetrics | undefined;
  readonly clock?: Clock | undefined;
}

/** A definition as last read. */
interface Known {
  readonly crd: Crd;
  /** `status.conditions` */
  readonly conditions: readonly JsonObject[];
  readonly version: bigint;
}

/** Pause before the remaining objects of a deleted definition are examined again; at least five times as long as the last examination. */
const cleanupPauseMs = 100;
const longestPauseMs = 10_000;

const established: NewCondition = {
  type: 'Established',
  status: 'True',
  reason: 'InitialNamesAccepted',
  message: 'the initial names have been accepted',
};
const notEstablished: NewCondition = {
  type: 'Established',
  status: 'False',
  reason: 'NotAccepted',
  message: 'not all names are accepted',
};

export class CustomResources {
  readonly #options: CustomResourcesOptions;
  readonly #calls: VerbCalls;
  readonly #known = new Map<string, Known>();
  readonly #served: ServedDefinitions;
  readonly #queue: WorkQueue;
  #ended: Promise<void> = Promise.resolve();

  constructor(options: CustomResourcesOptions) {
    this.#options = options;
    this.#calls = new VerbCalls(options.verbs, 'system:apiserver');
    this.#served = new ServedDefinitions(options.store, options.registry);
    this.#queue = new WorkQueue({
      backoff: { baseMs: 5, maxMs: 30_000 },
      retryLimit: { perSecond: 100, burst: 500 },
      clock: options.clock,
    });
  }

  /** Number of definitions whose kinds are served. */
  get served(): number {
    return this.#served.size;
  }

  /** Resolves when all work has ended, after the signal of {@link start} was aborted. */
  get ended(): Promise<void> {
    return this.#ended;
  }

  /**
   * Serves the established definitions, then follows the changes until the signal aborts.
   *
   * @throws what the store throws when it cannot be read.
   */
  async start(signal: AbortSignal): Promise<void> {
    const { store, registry, logger, metrics, clock } = this.#options;
    for (const portion of store.listPortions(crdStoreName).portions) {
      for (const stored of portion) {
        const { crd } = this.#take(stored);
        const names = crd.acceptedNames;
        if (isTrue(crd, 'Established') && names.plural !== '') this.#served.serve(crd, names);
      }
    }
    const follower = new ObjectFollower({
      logger,
      clock,
      store,
      registry,
      listener: { object: (type, object) => this.#changed(type, object) },
      follows: (storeName) => storeName === crdStoreName,
    });
    for (const name of this.#known.keys()) this.#queue.add(name);
    // Definitions are reconciled one at a time, so only one of those with the same name gets it.
    const controller = runController({
      logger,
      clock,
      metrics,
      name: 'custom-resources',
      queue: this.#queue,
      reconcile: (name, reconcileSignal) => this.#reconcile(name, reconcileSignal),
      signal,
    });
    this.#ended = Promise.all([follower.run(signal), controller]).then(() => undefined);
    await Promise.resolve();
  }

  #changed(type: ChangeType, stored: StoredObject): void {
    if (type === 'DELETED') this.#known.delete(stored.name);
    else if (this.#known.get(stored.name)?.version === stored.resourceVersion) return;
    else this.#take(stored);
    this.#queue.add(stored.name);
  }

  #take(stored: StoredObject): Known {
    const object = objectAt(JSON.parse(stored.text));
    const conditions = objectsAt(object, 'status', 'conditions');
    const known = { crd: readCrd(object), conditions, version: stored.resourceVersion };
    this.#known.set(stored.name, known);
    return known;
  }

  async #reconcile(name: string, signal: AbortSignal): Promise<Result> {
    const known = this.#known.get(name);
    if (known === undefined) {
      await this.#remove(name);
      return done;
    }
    const { crd } = known;
    if (crd.deleting) return this.#terminate(known, signal);
    const naming = nameCrd(crd, this.#takenByOthers(crd));
    const accepted = naming.condition.status === 'True';
    const serves = accepted || isTrue(crd, 'Established');
    // Registered before the status says that it is established, so that clients that read the status find it served.
    if (serves) this.#served.serve(crd, naming.accepted);
    const conditions: NewCondition[] = [naming.condition];
    if (!isTrue(crd, 'Established')) conditions.push(accepted ? established : notEstablished);
    const approval = approvalCondition(crd.group, crd.annotations);
    if (approval !== undefined) conditions.push(approval);
    await this.#notify(known, naming.accepted, conditions, signal);
    await this.#served.record(crd);
    // Another definition may be waiting for a name that this one has released.
    if (!deepEqual(crd.acceptedNames, naming.accepted)) this.#askGroup(crd);
    return done;
  }

  #takenByOthers(crd: Crd): TakenNames {
    const owners: ResourceNames[] = [];
    for (const { crd: other } of this.#known.values()) {
      if (other.group === crd.group && other.name !== crd.name) owners.push(other.acceptedNames);
    }
    for (const resource of this.#options.registry.all) {
      if (resource.group === crd.group && !resource.isCustom) owners.push(resource);
    }
    return takenNames(owners);
  }

  #askGroup({ group, name }: Pick<Crd, 'group' | 'name'>): void {
    for (const { crd } of this.#known.values()) {
      if (crd.group === group && crd.name !== name && !isTrue(crd, 'NamesAccepted'))
        this.#queue.add(crd.name);
    }
  }

  async #remove(name: string): Promise<void> {
    await this.#served.remove(name);
    this.#askGroup({ name, group: name.slice(name.indexOf('.') + 1) });
  }

  /** Writes the status if it differs. Retries after a conflict. */
  async #notify(
    known: Known,
    names: ResourceNames,
    conditions: readonly NewCondition[],
    signal: AbortSignal,
  ): Promise<void> {
    const resource = this.#options.registry.findStored(crdStoreName);
    const { conditions: old } = known;
    const now = new Date();
    let made: readonly JsonObject[] = old;
    for (const condition of conditions) made = withCondition(made, condition, now);
    const sameNames = deepEqual(known.crd.acceptedNames, names);
    if (resource === undefined || (made === old && sameNames)) return;
    const patch = {
      metadata: { resourceVersion: String(known.version), uid: known.crd.uid },
      status: { conditions: made, ...(sameNames ? {} : { acceptedNames: namesJson(names) }) },
    };
    const { stored } = await this.#calls.patch(
      resource,
      { namespace: '', name: known.crd.name },
      patch,
      signal,
      'status',
    );
    // The watch delivers this change only later, but the names of the next definition are already checked against it.
    const present = this.#known.get(known.crd.name);
    if (stored !== undefined && present?.version === known.version) this.#take(stored);
  }

  /** Deletes the objects of a definition, then removes its finalizer. */
  async #terminate(known: Known, signal: AbortSignal): Promise<Result> {
    const { crd } = known;
    const { registry, store } = this.#options;
    const wasServed = isTrue(crd, 'Established');
    if (wasServed) this.#served.serve(crd, crd.acceptedNames);
    const resource = registry.findStored(crdStoreName);
    if (resource === undefined || !crd.finalizers.includes(cleanupFinalizer)) return done;
    const say = (status: 'False' | 'True', reason: string, message: string): Promise<void> =>
      this.#notify(known, crd.acceptedNames, [{ type: 'Terminating', status, reason, message }], signal);
    if (wasServed) {
      const served = this.#served.get(crd.name);
      const began = performance.now();
      const left = await deleteInstances(crd, served, { store, calls: this.#calls, signal });
      if (left.errors.length > 0) {
        await say('True', 'InstanceDeletionFailed', `could not issue all deletes: ${left.errors.join(', ')}`);
        throw new AggregateError(left.errors, `not all objects of ${crd.name} can be deleted`);
      }
      if (left.count > 0) {
        await say('True', 'InstanceDeletionInProgress', 'CustomResource deletion is in progress');
        const tookMs = performance.now() - began;
        return requeueAfter(Math.min(longestPauseMs, Math.max(cleanupPauseMs, 5 * tookMs)));
      }
    }
    const present = this.#known.get(crd.name) ?? known;
    const finalizers = present.crd.finalizers.filter((one) => one !== cleanupFinalizer);
    const patch = { metadata: { resourceVersion: String(present.version), finalizers } };
    await this.#calls.patch(resource, { namespace: '', name: crd.name }, patch, signal);
    return done;
  }
}

/** Names as in the status, without empty lists. */
function namesJson({ plural, singular, shortNames, kind, listKind, categories }: ResourceNames): JsonObject {
  return {
    plural,
    singular,
    // A merge patch removes fields that are null.
    shortNames: shortNames.length === 0 ? null : shortNames,
    kind,
    listKind,
    categories: categories.length === 0 ? null : categories,
  };
}

interface CleanupContext {
  readonly store: Store;
  readonly calls: VerbCalls;
  readonly signal: AbortSignal;
}

/**
 * Requests the deletion of all objects of a deleted CustomResourceDefinition (apiextensions-apiserver
 * `pkg/controller/finalizer/crd_finalizer.go`). Objects with finalizers stay until these are removed.
 *
 * @returns the number of remaining objects, and the errors.
 */
async function deleteInstances(
  crd: Crd,
  served: { readonly models: SchemaModels; readonly stored: StoredForm } | undefined,
  { store, calls, signal }: CleanupContext,
): Promise<{ readonly count: number; readonly errors: readonly string[] }> {
  const namespaces = await namespacesOf(crd, store, signal);
  if (namespaces.size === 0) return { count: 0, errors: [] };
  // Objects are deleted even if no version is served any longer.
  const versions = crd.versions.map((version) => ({ ...version, served: version.storage }));
  const [resource] = resourcesOfCrd({ ...crd, versions }, { names: crd.acceptedNames, ...served });
  if (resource === undefined) return { count: 0, errors: [] };
  const errors: string[] = [];
  for (const namespace of namespaces) {
    signal.throwIfAborted();
    try {
      await calls.deleteCollection(resource, namespace, 'Background', signal);
    } catch (error) {
      errors.push(messageOf(error));
    }
  }
  const { items, remaining } = store.list(crd.name, { limit: 1 });
  return { count: items.length + remaining, errors };
}

async function namespacesOf(crd: Crd, store: Store, signal: AbortSignal): Promise<Set<string>> {
  const namespaces = new Set<string>();
  for (const portion of store.listPortions(crd.name).portions) {
    for (const { namespace } of portion) namespaces.add(namespace);
    await turn();
    signal.throwIfAborted();
  }
  return namespaces;
}
