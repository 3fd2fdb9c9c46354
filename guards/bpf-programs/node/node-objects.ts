/** Writes the per-node objects: BpfProgram and BpfNsProgram. */
import { deleteSame } from '../../../lib/kube/client/delete-same.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { isAlreadyExists, isNotFound, orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { type Condition, setCondition } from '../../../lib/kube/object/conditions.ts';
import { hasFinalizer, isDeleting, removeFinalizer } from '../../../lib/kube/controller/finalizers.ts';
import type { CacheChange, IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { objectKey } from '../../../lib/kube/object/object.ts';
import { controllerOf, withController } from '../../../lib/kube/object/owner-references.ts';
import { isOlder } from '../../../lib/kube/object/resource-version.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { type NodeObject, nodeTypes } from '../api.ts';
import { annotations as names, isNodeFinalizer } from '../engine/names.ts';
import type { NodeCondition } from '../engine/node-condition.ts';
import type { Wanted } from '../engine/wanted.ts';
import type { Scope } from '../spec-schema.ts';

/** What an object should say. */
export interface Told {
  readonly wanted: Wanted;
  readonly condition: NodeCondition;
  /** Once it is loaded. */
  readonly programId: number | undefined;
  /** Whether it does not run because what is not Rampart's is in its place. */
  readonly isDisplaced: boolean;
}

/** Told of each condition before it is written. */
export interface ConditionListener {
  condition(told: Told, before: readonly Condition[] | undefined): void;
  /** Of all objects of this node: what others said is past. */
  keepOnly(all: readonly Told[]): void;
}

export interface NodeObjectsOptions {
  readonly client: KubeClient;
  /** Those of this node. */
  readonly caches: Readonly<Record<Scope, IndexedCache<NodeObject>>>;
  readonly findings: ConditionListener;
  readonly logger: Logger;
}

/** How many requests run at the same time. */
const PARALLEL = 8;

export class NodeObjects implements Disposable {
  readonly #options: NodeObjectsOptions;
  /** The API's last responses, until the cache has caught up: a second write based on an old state would be refused. */
  readonly #latest: Readonly<Record<Scope, Map<string, NodeObject>>> = {
    Cluster: new Map(),
    Namespaced: new Map(),
  };
  readonly #following = new DisposableStack();

  constructor(options: NodeObjectsOptions) {
    this.#options = options;
    for (const scope of ['Cluster', 'Namespaced'] as const) {
      this.#following.use(
        options.caches[scope].subscribe(({ type, key }) => {
          if (type === 'deleted') this.#latest[scope].delete(key);
        }),
      );
    }
  }

  [Symbol.dispose](): void {
    this.#following.dispose();
  }

  /**
   * Updates the objects. Those that the kernel no longer runs lose their finalizer and are deleted.
   *
   * @param kept - If the kernel could not be changed: why. Objects that are no longer wanted then stay, and say so.
   * @returns whether everything is written; otherwise, call it again.
   */
  async write(all: readonly Told[], kept: string | undefined, signal: AbortSignal): Promise<boolean> {
    const wantedIds = { Cluster: new Set<string>(), Namespaced: new Set<string>() };
    for (const { wanted } of all) wantedIds[wanted.parent.kind.scope].add(wanted.id);
    const tells = all.map((told) => () => this.#tell(told.wanted.parent.kind.scope, told, signal));
    const ends = (['Cluster', 'Namespaced'] as const).flatMap((scope) =>
      [...new Set([...this.#options.caches[scope].keys(), ...this.#latest[scope].keys()])].flatMap((key) => {
        const object = this.#get(scope, key);
        if (object === undefined || wantedIds[scope].has(key)) return [];
        return [() => this.#end(scope, object, kept, signal)];
      }),
    );
    this.#options.findings.keepOnly(all);
    // New ones come first: otherwise a parent would briefly have no object of this node.
    const failed = (await this.#run(tells, signal)) + (await this.#run(ends, signal));
    return failed === 0;
  }

  /** @returns how many have failed. */
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

  /** Whether a change of a cache is a write of this process. */
  isOwn({ type, key, object }: CacheChange<NodeObject>): boolean {
    if (type === 'deleted') return false;
    const scope = object.kind === nodeTypes.Cluster.kind ? 'Cluster' : 'Namespaced';
    return this.#latest[scope].get(key)?.metadata.resourceVersion === object.metadata.resourceVersion;
  }

  #get(scope: Scope, key: string): NodeObject | undefined {
    const cached = this.#options.caches[scope].get(key);
    const latest = this.#latest[scope].get(key);
    if (latest === undefined) return cached;
    const version = (object: NodeObject): string => object.metadata.resourceVersion ?? '';
    if (cached !== undefined && !isOlder(version(cached), version(latest))) {
      this.#latest[scope].delete(key);
      return cached;
    }
    return latest;
  }

  async #tell(scope: Scope, told: Told, signal: AbortSignal): Promise<void> {
    const { wanted, programId } = told;
    const wantedAnnotations = {
      ...wanted.annotations,
      ...(programId !== undefined && { [names.programId]: String(programId) }),
    };
    let object = this.#get(scope, wanted.id);
    if (object !== undefined && (isDeleting(object) || controllerOf(object)?.uid !== wanted.parent.uid)) {
      // Somebody deleted it, or it is left over from a parent of the same name: it is created again once it is gone.
      await this.#end(scope, object, undefined, signal);
      return;
    }
    if (object === undefined) object = await this.#create(scope, wanted, wantedAnnotations, signal);
    else object = await this.#correct(scope, object, wanted, wantedAnnotations, signal);
    if (object === undefined) return;
    this.#options.findings.condition(told, object.status?.conditions);
    await this.#setCondition(scope, object, told.condition, wanted.parent.object.metadata.generation, signal);
  }

  async #create(
    scope: Scope,
    wanted: Wanted,
    annotations: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<NodeObject | undefined> {
    const { name, parent, labels, finalizer, specType } = wanted;
    const bare: NodeObject = {
      metadata: {
        name,
        ...(parent.namespace !== undefined && { namespace: parent.namespace }),
        labels: { ...labels },
        annotations: { ...annotations },
        finalizers: [finalizer],
      },
      spec: { type: specType },
    };
    try {
      const object = withController(bare, parent.kind.type, parent.object);
      return this.#keep(scope, await this.#options.client.create(nodeTypes[scope], object, { signal }));
    } catch (error) {
      // The cache will show it; its namespace may be terminating.
      if (isAlreadyExists(error) || isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** Labels, annotations and the finalizer, where somebody or the kernel changed them. */
  async #correct(
    scope: Scope,
    object: NodeObject,
    { labels, finalizer, parent }: Wanted,
    annotations: Readonly<Record<string, string>>,
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
    const { client } = this.#options;
    const patched = await orUndefined(
      client.patch(parent.kind.nodeType, { name, namespace }, patch, { signal }),
    );
    return patched && this.#keep(scope, patched);
  }

  async #setCondition(
    scope: Scope,
    object: NodeObject,
    { type, reason, message }: NodeCondition,
    generation: number | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const before = object.status?.conditions ?? [];
    const same = before.filter((one) => one.type === type);
    const conditions = setCondition(same, {
      ...{ type, reason, message, status: 'True' },
      observedGeneration: generation,
    });
    if (before.length === 1 && conditions[0] === before[0]) return;
    const { name = '', namespace } = object.metadata;
    const patch = { type: 'merge', body: { status: { conditions } } } as const;
    const target = { name, namespace, subresource: 'status' };
    const patched = await orUndefined(
      this.#options.client.patch(nodeTypes[scope], target, patch, { signal }),
    );
    if (patched === undefined) this.#latest[scope].delete(objectKey(object));
    else this.#keep(scope, patched);
  }

  async #end(scope: Scope, object: NodeObject, kept: string | undefined, signal: AbortSignal): Promise<void> {
    if (kept !== undefined) {
      const condition: NodeCondition = { type: 'NotUnLoaded', reason: 'bpfmanNotUnloaded', message: kept };
      await this.#setCondition(scope, object, condition, undefined, signal);
      return;
    }
    const type = nodeTypes[scope];
    let current: NodeObject | undefined = object;
    for (const finalizer of object.metadata.finalizers ?? []) {
      if (!isNodeFinalizer(finalizer) || current === undefined) continue;
      current = await removeFinalizer(this.#options.client, type, current, finalizer, { signal });
    }
    this.#latest[scope].delete(objectKey(object));
    if (current === undefined || isDeleting(object)) return;
    await deleteSame(this.#options.client, type, object, { signal });
  }

  #keep(scope: Scope, object: NodeObject): NodeObject {
    this.#latest[scope].set(objectKey(object), object);
    return object;
  }
}
