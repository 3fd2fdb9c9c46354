/**
 * Completes the deletion of namespaces: first deletes all objects in them, then removes their finalizer
 * (kubernetes `pkg/controller/namespace/deletion`).
 */
import { setImmediate as turn } from 'node:timers/promises';

import { messageOf } from '../../errors/errors.ts';
import { done, requeueAfter, type Reconcile } from '../../kube/controller/controller.ts';
import type { WorkQueue } from '../../kube/controller/workqueue.ts';
import { listAt, objectAt, valueAt } from '../../json/fields.ts';
import { Item } from '../resources/item.ts';
import type { Registry } from '../resources/registry.ts';
import type { Resource } from '../resources/resource.ts';
import { cloneJson, isObject, type JsonObject } from '../../json/json.ts';
import type { ChangeType, StoredObject } from '../store/object.ts';
import type { Store } from '../store/store.ts';
import { type ContentReport, namespaceConditions } from './namespace-conditions.ts';
import type { ObjectListener } from './object-follower.ts';
import { ownershipOf } from './owner-graph.ts';
import { hasCode, type VerbCalls } from './verb-calls.ts';

const storeName = 'namespaces';
const finalizer = 'kubernetes';

interface NamespaceDeletionOptions {
  readonly store: Store;
  readonly registry: Registry;
  readonly calls: VerbCalls;
  /** Names of namespaces. */
  readonly queue: WorkQueue;
}

/** After a change in a namespace that is being deleted, more changes are awaited at least this long before it is examined again. */
const gatherMs = 20;
/** The wait also lasts at least this many times as long as the last examination, so that a large namespace does not use up all the time. */
const gatherShare = 5;
/** A namespace that waits for finalizers is examined again after this time at the latest. */
const longestWaitMs = 15_000;

export class NamespaceDeletion implements ObjectListener {
  readonly #options: NamespaceDeletionOptions;
  /** How long the last examination of each namespace that is being deleted took, in milliseconds. */
  readonly #terminating = new Map<string, number>();
  #finished = 0;

  constructor(options: NamespaceDeletionOptions) {
    this.#options = options;
  }

  get terminating(): number {
    return this.#terminating.size;
  }

  /** Number of namespaces whose deletion was completed. */
  get finished(): number {
    return this.#finished;
  }

  object(type: ChangeType, object: StoredObject): void {
    const { queue } = this.#options;
    if (object.resource === storeName) {
      if (type === 'DELETED') this.#terminating.delete(object.name);
      else if (object.text.includes('"deletionTimestamp"') && ownershipOf(object).deleting) {
        this.#terminating.set(object.name, this.#terminating.get(object.name) ?? 0);
        queue.add(object.name);
      }
    } else if (object.namespace !== '') {
      const tookMs = this.#terminating.get(object.namespace);
      if (tookMs === undefined) return;
      queue.addAfter(object.namespace, Math.min(longestWaitMs, Math.max(gatherMs, gatherShare * tookMs)));
    }
  }

  readonly reconcile: Reconcile<string> = async (name, signal) => {
    const { store, registry, calls } = this.#options;
    const resource = registry.findStored(storeName);
    const stored = store.get(storeName, '', name);
    if (resource === undefined || stored === undefined) return done;
    const { object } = Item.ofStored(resource, stored);
    const spec = objectAt(object, 'spec');
    const finalizers = listAt(spec, 'finalizers');
    if (valueAt(object, 'metadata', 'deletionTimestamp') === undefined || !finalizers.includes(finalizer))
      return done;
    const began = performance.now();
    const report = await this.#deleteContent(name, signal);
    if (this.#terminating.has(name)) this.#terminating.set(name, performance.now() - began);
    const place = { namespace: '', name };
    try {
      const updated = await this.#notify(resource, place, object, report, signal);
      if (report.errors.length > 0)
        throw new AggregateError(report.errors, `the content of ${name} cannot be deleted`);
      if (report.remaining.size > 0) return requeueAfter(longestWaitMs);
      const left = finalizers.filter((one) => one !== finalizer);
      const finalized = cloneJson({ ...updated, spec: { ...spec, finalizers: left } }) as JsonObject;
      await calls.update(resource, place, finalized, signal, 'finalize');
      this.#finished++;
    } catch (error) {
      if (!hasCode(error, 404)) throw error;
    }
    return done;
  };

  async #notify(
    resource: Resource,
    place: { readonly namespace: string; readonly name: string },
    object: JsonObject,
    report: ContentReport,
    signal: AbortSignal,
  ): Promise<JsonObject> {
    const old = listAt(object, 'status', 'conditions').filter(isObject);
    const conditions = namespaceConditions(old, report, new Date());
    if (conditions === undefined) return object;
    const { resourceVersion } = objectAt(object, 'metadata');
    const patch = { metadata: { resourceVersion }, status: { conditions } };
    return (await this.#options.calls.patch(resource, place, patch, signal, 'status')).object;
  }

  async #deleteContent(namespace: string, signal: AbortSignal): Promise<ContentReport> {
    const { store, registry, calls } = this.#options;
    const remaining = new Map<Resource, number>();
    const finalizers = new Map<string, number>();
    const errors: string[] = [];
    for (const { versions, storeName: kind } of [...registry.sets]) {
      const resource = versions.find(({ verbs }) => verbs.has('deletecollection')) ?? versions[0];
      if (resource?.namespaced !== true) continue;
      if (store.list(kind, { namespace, limit: 1 }).items.length === 0) continue;
      signal.throwIfAborted();
      try {
        await calls.deleteCollection(resource, namespace, 'Background', signal);
      } catch (error) {
        errors.push(messageOf(error));
      }
      const left = await this.#count(kind, namespace, finalizers, signal);
      if (left > 0) remaining.set(resource, left);
    }
    return { remaining, finalizers, errors };
  }

  async #count(
    kind: string,
    namespace: string,
    finalizers: Map<string, number>,
    signal: AbortSignal,
  ): Promise<number> {
    let count = 0;
    for (const portion of this.#options.store.listPortions(kind, { namespace }).portions) {
      count += portion.length;
      for (const object of portion) {
        for (const name of ownershipOf(object).finalizers)
          finalizers.set(name, (finalizers.get(name) ?? 0) + 1);
      }
      await turn();
      signal.throwIfAborted();
    }
    return count;
  }
}
