/**
 * Garbage collection by owner references (https://kubernetes.io/docs/concepts/architecture/garbage-collection/), with
 * the same decisions as kubernetes `pkg/controller/garbagecollector`.
 *
 * Kubernetes keeps all objects in memory; this looks owners up in the store, so it only has to remember which objects
 * have owners.
 */
import type { Logger } from '../../telemetry/log.ts';
import { done, type Reconcile } from '../../kube/controller/controller.ts';
import type { WorkQueue } from '../../kube/controller/workqueue.ts';
import { listAt, objectAt } from '../../json/fields.ts';
import { Item } from '../resources/item.ts';
import type { Registry } from '../resources/registry.ts';
import { isObject, type JsonObject } from '../../json/json.ts';
import type { ChangeType, StoredObject } from '../store/object.ts';
import type { Store } from '../store/store.ts';
import {
  foregroundFinalizer,
  type Node,
  orphanFinalizer,
  type Owner,
  OwnerGraph,
  ownershipIn,
  ownershipOf,
} from './owner-graph.ts';
import { hasCode, type VerbCalls } from './verb-calls.ts';
import type { ObjectListener } from './object-follower.ts';

interface GarbageCollectorOptions {
  readonly store: Store;
  readonly registry: Registry;
  readonly calls: VerbCalls;
  /** UIDs of objects to examine. */
  readonly queue: WorkQueue;
  /** Resolves when the collector has received all changes made before the call. */
  readonly caughtUp: (signal: AbortSignal) => Promise<void>;
  readonly logger?: Logger | undefined;
}

type OwnerState = 'absent' | 'present' | 'unknown' | 'waits for dependents';

/** Number of dependents that are orphaned concurrently: enough to fill the commits of the store. */
const orphanedAtOnce = 64;
/** Limit of UIDs of deleted objects that are remembered, for references to kinds that are no longer served. */
const maxAbsent = 500;

export class GarbageCollector implements ObjectListener {
  readonly #options: GarbageCollectorOptions;
  readonly #graph = new OwnerGraph();
  readonly #absent = new Set<string>();
  readonly #listed = new Set<string>();
  /** UIDs of dependents with owners of kinds that are not served. */
  readonly #unresolved = new Set<string>();
  #deleted = 0;
  #orphaned = 0;

  constructor(options: GarbageCollectorOptions) {
    this.#options = options;
  }

  /** Number of objects in the graph of owners. */
  get size(): number {
    return this.#graph.size;
  }

  /** Number of objects deleted because their owners are gone. */
  get deleted(): number {
    return this.#deleted;
  }

  /** Number of objects that lost the reference to an owner which is gone or orphans them. */
  get orphaned(): number {
    return this.#orphaned;
  }

  object(type: ChangeType, object: StoredObject): void {
    if (type === 'DELETED') this.#gone(object);
    else this.#put(object);
  }

  listBegins(storeName: string): void {
    this.#graph.listBegins(storeName);
  }

  listEnds(storeName: string): void {
    for (const { uid } of this.#graph.listEnds(storeName)) this.#gone({ resource: storeName, uid });
    // A second list of a kind means that changes were missed, perhaps of owners that are not in the graph: examines all objects.
    if (this.#listed.has(storeName)) for (const { uid } of this.#graph.nodes) this.#options.queue.add(uid);
    this.#listed.add(storeName);
  }

  /** Call when the set of served kinds has changed. */
  kindsChanged(): void {
    for (const uid of this.#unresolved) this.#options.queue.add(uid);
    this.#unresolved.clear();
  }

  /** Does what is due for one object: deletes or orphans its dependents, or decides about the object by its owners. */
  readonly reconcile: Reconcile<string> = async (uid, signal) => {
    const node = this.#graph.get(uid);
    if (node === undefined) return done;
    const { store, registry } = this.#options;
    const resource = registry.findStored(node.storeName);
    const latest = store.get(node.storeName, node.namespace, node.name);
    if (latest?.uid !== uid) {
      this.#gone({ resource: node.storeName, uid });
      return done;
    }
    if (resource === undefined) return done;
    const item = Item.ofStored(resource, latest);
    const ownership = ownershipOf(latest);
    if (ownership.deleting) {
      if (ownership.finalizers.includes(orphanFinalizer)) await this.#orphanDependents(node, item, signal);
      else if (ownership.finalizers.includes(foregroundFinalizer))
        await this.#deleteDependents(node, item, signal);
      return done;
    }
    await this.#judge(node, item, ownership.owners, ownership.finalizers, signal);
    return done;
  };

  #put(object: StoredObject): void {
    const { queue } = this.#options;
    const { node, released, ownersChanged, foregroundBegins, orphaningBegins } = this.#graph.put(
      object,
      ownershipOf(object),
    );
    for (const owner of released) if (this.#graph.get(owner)?.foreground === true) queue.add(owner);
    if (node === undefined) return;
    if (ownersChanged || foregroundBegins || orphaningBegins) queue.add(node.uid);
    if (foregroundBegins) for (const { uid } of this.#graph.dependentsOf(node.uid)) queue.add(uid);
  }

  #gone(object: Pick<StoredObject, 'resource' | 'uid'>): void {
    const { queue } = this.#options;
    const dependents = this.#graph.dependentsOf(object.uid);
    if (dependents.size > 0) this.#remember(object.uid);
    for (const { uid } of dependents) queue.add(uid);
    for (const owner of this.#graph.remove(object)) {
      if (this.#graph.get(owner)?.foreground === true) queue.add(owner);
    }
    this.#unresolved.delete(object.uid);
  }

  #remember(uid: string): void {
    this.#absent.add(uid);
    if (this.#absent.size > maxAbsent) {
      const [oldest] = this.#absent;
      if (oldest !== undefined) this.#absent.delete(oldest);
    }
  }

  /** Decides about an object that is not being deleted, by the state of its owners. */
  async #judge(
    node: Node,
    item: Item,
    owners: readonly Owner[],
    finalizers: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    const states = owners.map((owner) => this.#stateOf(owner, node));
    // No decision while the state of one of the owners is unknown.
    if (owners.length === 0 || states.includes('unknown')) return;
    const { calls } = this.#options;
    const waiting = states.includes('waits for dependents');
    if (states.includes('present')) {
      const left = owners.filter((_, index) => states[index] === 'present');
      if (left.length < owners.length) await this.#removeReferences(item, owners, left, signal);
      return;
    }
    let propagationPolicy: 'Background' | 'Foreground' | 'Orphan' = 'Background';
    if (waiting && this.#graph.dependentsOf(node.uid).size > 0) {
      propagationPolicy = 'Foreground';
      // The patch makes a new version of the object, which is examined again.
      if (await this.#cutCycle(node, item, owners, signal)) return;
    } else if (finalizers.includes(orphanFinalizer)) propagationPolicy = 'Orphan';
    else if (finalizers.includes(foregroundFinalizer)) propagationPolicy = 'Foreground';
    const resourceVersion = item.stored?.resourceVersion;
    // With preconditions, because the object may have a new owner by now.
    const options = { uid: node.uid, resourceVersion, propagationPolicy };
    await forgiving(calls.delete(item.resource, node, options, signal));
    this.#deleted++;
  }

  /** Breaks a cycle of objects that would wait for each other forever: this object stops blocking its owners. @returns whether it did. */
  async #cutCycle(node: Node, item: Item, owners: readonly Owner[], signal: AbortSignal): Promise<boolean> {
    const cycle = [...this.#graph.dependentsOf(node.uid)].some(({ foreground }) => foreground);
    if (!cycle || owners.every(({ blocks }) => !blocks)) return false;
    const references = referencesOf(item.object).map((one) => ({ ...one, blockOwnerDeletion: false }));
    await this.#patchReferences(item, references, signal);
    return true;
  }

  #stateOf(owner: Owner, dependent: Node): OwnerState {
    const { registry, store, logger } = this.#options;
    const resource = registry.findKind(owner.apiVersion, owner.kind);
    if (resource === undefined) {
      if (this.#absent.has(owner.uid)) return 'absent';
      this.#unresolved.add(dependent.uid);
      return 'unknown';
    }
    if (resource.namespaced && dependent.namespace === '') {
      logger?.warn(
        { owner: describe(owner), dependent: `${dependent.storeName} ${dependent.name}` },
        'a cluster-scoped object cannot have a namespaced owner',
      );
      return 'unknown';
    }
    const found = store.get(resource.storeName, resource.namespaced ? dependent.namespace : '', owner.name);
    if (found?.uid !== owner.uid) return 'absent';
    const { deleting, finalizers } = ownershipOf(found);
    return deleting && finalizers.includes(foregroundFinalizer) ? 'waits for dependents' : 'present';
  }

  /** Foreground deletion: lets the object go once no dependent blocks it. */
  async #deleteDependents(node: Node, item: Item, signal: AbortSignal): Promise<void> {
    await this.#options.caughtUp(signal);
    // Each dependent is deleted by its own reconcile, queued when this deletion began or when the dependent appeared.
    for (const { owners } of this.#graph.dependentsOf(node.uid)) {
      if (owners.some((owner) => owner.uid === node.uid && owner.blocks)) return;
    }
    await this.#removeFinalizer(item, foregroundFinalizer, signal);
  }

  async #orphanDependents(node: Node, item: Item, signal: AbortSignal): Promise<void> {
    await this.#options.caughtUp(signal);
    const dependents = [...this.#graph.dependentsOf(node.uid)].values();
    const work = async (): Promise<void> => {
      for (const dependent of dependents) await this.#orphan(dependent, node.uid, signal);
    };
    await Promise.all(Array.from({ length: orphanedAtOnce }, work));
    await this.#removeFinalizer(item, orphanFinalizer, signal);
  }

  async #orphan(dependent: Node, owner: string, signal: AbortSignal): Promise<void> {
    const { store, registry } = this.#options;
    const resource = registry.findStored(dependent.storeName);
    const latest = store.get(dependent.storeName, dependent.namespace, dependent.name);
    if (resource === undefined || latest?.uid !== dependent.uid) return;
    const item = Item.ofStored(resource, latest);
    const { owners } = ownershipIn(objectAt(item.object, 'metadata'));
    const left = owners.filter(({ uid }) => uid !== owner);
    if (left.length < owners.length) await this.#removeReferences(item, owners, left, signal);
  }

  async #removeReferences(
    item: Item,
    owners: readonly Owner[],
    left: readonly Owner[],
    signal: AbortSignal,
  ): Promise<void> {
    const keep = new Set(left.map(({ uid }) => uid));
    const references = referencesOf(item.object).filter((_, index) => keep.has(owners[index]?.uid ?? ''));
    await this.#patchReferences(item, references.length === 0 ? null : references, signal);
    this.#orphaned++;
  }

  #patchReferences(item: Item, ownerReferences: unknown, signal: AbortSignal): Promise<void> {
    return this.#patch(item, { ownerReferences }, signal);
  }

  #removeFinalizer(item: Item, finalizer: string, signal: AbortSignal): Promise<void> {
    const { finalizers } = ownershipIn(objectAt(item.object, 'metadata'));
    return this.#patch(item, { finalizers: finalizers.filter((one) => one !== finalizer) }, signal);
  }

  /** Patches an object if it still has the UID and version that were read; otherwise, the conflict leads to a retry. */
  async #patch(item: Item, metadata: JsonObject, signal: AbortSignal): Promise<void> {
    const { stored, resource } = item;
    if (stored === undefined) return;
    const { uid, resourceVersion } = stored;
    const patch = { metadata: { ...metadata, uid, resourceVersion: String(resourceVersion) } };
    await forgiving(this.#options.calls.patch(resource, stored, patch, signal));
  }
}

/** Ignores that the object no longer exists, which is the goal. */
async function forgiving(call: Promise<unknown>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!hasCode(error, 404)) throw error;
  }
}

function referencesOf(object: JsonObject): JsonObject[] {
  return listAt(object, 'metadata', 'ownerReferences').filter(isObject);
}

function describe({ apiVersion, kind, name }: Owner): string {
  return `${apiVersion} ${kind} ${name}`;
}
