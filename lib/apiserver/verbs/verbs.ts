/** The API server's operations on objects, between HTTP (`http/`) and the store. */
import { type Clock, systemClock } from '../../time/clock.ts';
import { apiErrors } from '../resources/api-error.ts';
import type { Registry } from '../resources/registry.ts';
import type { Store } from '../store/store.ts';
import type { Admission } from './admission.ts';
import type { VerbContext } from './context.ts';
import { create } from './create.ts';
import { deleteCollection, deleteOne } from './delete.ts';
import { answerOf } from './failures.ts';
import { get } from './get.ts';
import { list } from './list.ts';
import { NamespaceLifecycle } from './namespaces.ts';
import { patch } from './patch.ts';
import { podLog } from './pod-log.ts';
import type { ResourceAnswer, ResourceRequest } from './request.ts';
import { update } from './update.ts';
import { watch } from './watch.ts';
import type { PodLogs } from './pod-logs.ts';

export interface VerbsOptions {
  /** Disposed by the caller. */
  readonly store: Store;
  readonly registry: Registry;
  /** In addition to `NamespaceLifecycle`, which is always there. */
  readonly admission?: readonly Admission[] | undefined;
  readonly clock?: Clock;
  /** A watch without a timeout of its own ends after a random time between this and twice this. Default: 30 minutes. */
  readonly minWatchMs?: number;
  /** Time between bookmarks. Default: one minute. */
  readonly bookmarkIntervalMs?: number;
  /** Source of container logs; without it, requests for logs are refused. */
  readonly podLogs?: PodLogs | undefined;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). Default: Math.random. */
  readonly random?: () => number;
}

/** The verbs of one store. The caller disposes it before the store. */
export class Verbs implements Disposable {
  readonly #context: VerbContext;
  readonly #namespaces: NamespaceLifecycle;

  constructor(options: VerbsOptions) {
    const { store, registry, admission = [], clock = systemClock, random = Math.random } = options;
    this.#namespaces = new NamespaceLifecycle(store);
    this.#context = {
      store,
      registry,
      clock,
      random,
      admission: [this.#namespaces, ...admission],
      minWatchMs: options.minWatchMs ?? 30 * 60_000,
      bookmarkIntervalMs: options.bookmarkIntervalMs ?? 60_000,
      podLogs: options.podLogs,
    };
  }

  /**
   * Handles a request. When it resolves, a write is on the disk.
   *
   * @throws {ApiError} no other errors; the same is true for reading the events of a watch.
   */
  async handle(request: ResourceRequest): Promise<ResourceAnswer> {
    const { resource, subresource, verb, name, warnings } = request;
    try {
      if (!(subresource?.verbs ?? resource.verbs).has(verb)) {
        throw apiErrors.methodNotAllowed(resource, verb);
      }
      // Across all namespaces, only reading is possible.
      if (resource.namespaced && request.namespace === '' && verb !== 'list' && verb !== 'watch') {
        throw apiErrors.methodNotAllowed(resource, verb);
      }
      if (resource.deprecation !== undefined) warnings.push(resource.deprecation);
      return await this.#done(request);
    } catch (error) {
      throw answerOf(error, resource, name);
    }
  }

  [Symbol.dispose](): void {
    this.#namespaces[Symbol.dispose]();
  }

  #done(request: ResourceRequest): ResourceAnswer | Promise<ResourceAnswer> {
    const context = this.#context;
    switch (request.verb) {
      case 'get':
        return request.subresource?.text === undefined ? get(context, request) : podLog(context, request);
      case 'list':
        return list(context, request);
      case 'watch':
        return watch(context, request);
      case 'create':
        return create(context, request);
      case 'update':
        return update(context, request);
      case 'patch':
        return patch(context, request);
      case 'delete':
        return deleteOne(context, request);
      case 'deletecollection':
        return deleteCollection(context, request);
    }
  }
}
