/** Writes the per-node objects of this node. */
import { deleteSame } from '../../../lib/kube/client/delete-same.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { isAlreadyExists, isNotFound, orUndefined } from '../../../lib/kube/client/client-errors.ts';
import type { Condition } from '../../../lib/kube/object/conditions.ts';
import { hasFinalizer, isDeleting, removeFinalizer } from '../../../lib/kube/controller/finalizers.ts';
import type { CacheChange, IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { objectKey } from '../../../lib/kube/object/object.ts';
import { controllerOf, withController } from '../../../lib/kube/object/owner-references.ts';
import { isOlder } from '../../../lib/kube/object/resource-version.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { NodeObject } from '../api.ts';
import { annotations as names, isNodeFinalizer } from '../engine/names.ts';
import { keptStatus, objectsOf, type WantedObject } from '../engine/node-object.ts';
import type { Reported } from '../engine/reported.ts';

/** Is informed of each condition before it is written. */
export interface ConditionListener {
  condition(reported: Reported, before: readonly Condition[] | undefined): void;
  /** Called with the outcomes of all objects on this node: anything else that is remembered is outdated. */
  keepOnly(all: readonly Reported[]): void;
}

export interface NodeObjectsOptions {
  readonly client: KubeClient;
  readonly nodeName: string;
  /** Caches of this node's objects, one for each per-node kind. */
  readonly caches: readonly IndexedCache<NodeObject>[];
  readonly findings: ConditionListener;
  readonly logger: Logger;
}

/** How many requests run at the same time. */
const PARALLEL = 8;

/** The per-node objects of one kind. */
class ObjectsOfKind implements Disposable {
  readonly cache: IndexedCache<NodeObject>;
  /** The latest objects that the API returned, until the cache has them: a second write based on an older version would be refused. */
  readonly latest = new Map<string, NodeObject>();
  readonly #following: Disposable;

  constructor(cache: IndexedCache<NodeObject>) {
    this.cache = cache;
    this.#following = cache.subscribe(({ type, key }) => {
      if (type === 'deleted') this.latest.delete(key);
    });
  }

  [Symbol.dispose](): void {
    this.#following[Symbol.dispose]();
  }

  get(key: string): NodeObject | undefined {
    const cached = this.cache.get(key);
    const latest = this.latest.get(key);
    if (latest === undefined) return cached;
    const version = (object: NodeObject): string => object.metadata.resourceVersion ?? '';
    if (cached !== undefined && !isOlder(version(cached), version(latest))) {
      this.latest.delete(key);
      return cached;
    }
    return latest;
  }

  keep(object: NodeObject): NodeObject {
    this.latest.set(objectKey(object), object);
    return object;
  }

  keys(): Set<string> {
    return new Set([...this.cache.keys(), ...this.latest.keys()]);
  }
}

export class NodeObjects implements Disposable {
  readonly #options: NodeObjectsOptions;
  /** Keyed by kind. */
  readonly #kinds: ReadonlyMap<string, ObjectsOfKind>;

  constructor(options: NodeObjectsOptions) {
    this.#options = options;
    this.#kinds = new Map(options.caches.map((cache) => [cache.type.kind, new ObjectsOfKind(cache)]));
  }

  [Symbol.dispose](): void {
    for (const kind of this.#kinds.values()) kind[Symbol.dispose]();
  }

  /**
   * Updates the objects. Those whose programs the kernel no longer runs lose their finalizer and are deleted.
   *
   * @param kept - The reason, if the kernel could not be changed: objects that are no longer wanted then stay, with this text in their
   * condition.
   * @returns whether everything is written; otherwise, call it again.
   */
  async write(all: readonly Reported[], kept: string | undefined, signal: AbortSignal): Promise<boolean> {
    const wanted = objectsOf(all, this.#options.nodeName);
    const keys = new Set(wanted.map(({ type, key }) => `${type.kind} ${key}`));
    const reports = wanted.map((one) => () => this.#notify(one, signal));
    const ends = [...this.#kinds].flatMap(([name, kind]) =>
      [...kind.keys()].flatMap((key) => {
        const object = kind.get(key);
        if (object === undefined || keys.has(`${name} ${key}`)) return [];
        return [() => this.#end(kind, object, kept, signal)];
      }),
    );
    this.#options.findings.keepOnly(all);
    // New objects come first: otherwise a parent would briefly have no object on this node.
    const failed = (await this.#run(reports, signal)) + (await this.#run(ends, signal));
    return failed === 0;
  }

  /** @returns how many of `works` have failed. */
  async #run(works: readonly (() => Promise<void>)[], signal: AbortSignal): Promise<number> {
    let failed = 0;
    const next = works[Symbol.iterator]();
    const worker = async (): Promise<void> => {
      for (const work of next) {
        try {
          await work();
        } catch (error) {
          if (signal.aborted) throw error;
          if (failed++ > 0) continue;
          this.#options.logger.warn({ err: error }, 'cannot write an object of this node, retrying');
        }
      }
    };
    await Promise.all(Array.from({ length: PARALLEL }, worker));
    return failed;
  }

  /** Whether a cache change is this process's own write. */
  isOwn({ type, key, object }: CacheChange<NodeObject>): boolean {
    if (type === 'deleted') return false;
    const latest = this.#kinds.get(object.kind ?? '')?.latest.get(key);
    return latest?.metadata.resourceVersion === object.metadata.resourceVersion;
  }

  async #notify(wanted: WantedObject, signal: AbortSignal): Promise<void> {
    const { type, key, parent, reported, statusAfter, conditionIn } = wanted;
    const kind = this.#kinds.get(type.kind);
    if (kind === undefined) throw new TypeError(`no cache of ${type.kind}`);
    let object = kind.get(key);
    if (object !== undefined && (isDeleting(object) || controllerOf(object)?.uid !== parent.uid)) {
      // The object is being deleted, or belongs to an earlier parent with the same name: it is created again once it is gone.
      await this.#end(kind, object, undefined, signal);
      return;
    }
    if (object === undefined) object = await this.#create(kind, wanted, signal);
    else object = await this.#correct(kind, object, wanted, signal);
    if (object === undefined) return;
    const { status } = object;
    for (const one of reported) this.#options.findings.condition(one, conditionIn(status, one));
    await this.#setStatus(kind, object, statusAfter(status), signal);
  }

  async #create(
    kind: ObjectsOfKind,
    { type, name, parent, labels, annotations, finalizer, spec }: WantedObject,
    signal: AbortSignal,
  ): Promise<NodeObject | undefined> {
    const bare: NodeObject = {
      metadata: {
        name,
        ...(parent.namespace !== undefined && { namespace: parent.namespace }),
        labels: { ...labels },
        annotations: { ...annotations },
        finalizers: [finalizer],
      },
      ...(spec && { spec }),
    };
    try {
      const object = withController(bare, parent.kind.type, parent.object);
      return kind.keep(await this.#options.client.create(type, object, { signal }));
    } catch (error) {
      // If the object already exists, the cache will show it; if its namespace is not found, the namespace is being deleted.
      if (isAlreadyExists(error) || isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** Restores labels, annotations and the finalizer if they were changed. */
  async #correct(
    kind: ObjectsOfKind,
    object: NodeObject,
    { type, labels, annotations, finalizer }: WantedObject,
    signal: AbortSignal,
  ): Promise<NodeObject | undefined> {
    const changed: Record<string, unknown> = {};
    const has = object.metadata.annotations ?? {};
    const wrong: Record<string, string | null> = {};
    for (const [key, value] of Object.entries(annotations)) if (has[key] !== value) wrong[key] = value;
    if (annotations[names.programId] === undefined && names.programId in has) wrong[names.programId] = null;
    if (Object.keys(wrong).length > 0) changed['annotations'] = wrong;
    const hasLabels = object.metadata.labels ?? {};
    if (Object.entries(labels).some(([key, value]) => hasLabels[key] !== value)) changed['labels'] = labels;
    if (!hasFinalizer(object, finalizer)) {
      changed['finalizers'] = [...(object.metadata.finalizers ?? []), finalizer];
      changed['resourceVersion'] = object.metadata.resourceVersion;
    }
    if (Object.keys(changed).length === 0) return object;
    const { name = '', namespace } = object.metadata;
    const patch = { type: 'merge', body: { metadata: changed } } as const;
    const patched = await orUndefined(
      this.#options.client.patch(type, { name, namespace }, patch, { signal }),
    );
    return patched && kind.keep(patched);
  }

  async #setStatus(
    kind: ObjectsOfKind,
    object: NodeObject,
    status: NodeObject['status'],
    signal: AbortSignal,
  ): Promise<void> {
    if (status === object.status) return;
    const { name = '', namespace } = object.metadata;
    const patch = { type: 'merge', body: { status } } as const;
    const target = { name, namespace, subresource: 'status' };
    const patched = await orUndefined(this.#options.client.patch(kind.cache.type, target, patch, { signal }));
    if (patched === undefined) kind.latest.delete(objectKey(object));
    else kind.keep(patched);
  }

  async #end(
    kind: ObjectsOfKind,
    object: NodeObject,
    kept: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { type } = kind.cache;
    if (kept !== undefined) {
      await this.#setStatus(kind, object, keptStatus(type, object.status, kept), signal);
      return;
    }
    let current: NodeObject | undefined = object;
    for (const finalizer of object.metadata.finalizers ?? []) {
      if (!isNodeFinalizer(finalizer) || current === undefined) continue;
      current = await removeFinalizer(this.#options.client, type, current, finalizer, { signal });
    }
    kind.latest.delete(objectKey(object));
    if (current === undefined || isDeleting(object)) return;
    await deleteSame(this.#options.client, type, object, { signal });
  }
}
