import { CallScope } from './call-scope.ts';
import { unreachable } from './client-errors.ts';
import type { ClusterAccess } from '../access/cluster-access.ts';
import type { Credentials } from '../access/credentials.ts';
import type {
  ApplyOptions,
  CallOptions,
  DeleteOptions,
  ListOptions,
  ObjectTarget,
  Patch,
  WriteOptions,
} from './client-options.ts';
import {
  type ApiRequest,
  Connection,
  type ConnectionOptions,
  type Query,
  searchParams,
} from './connection.ts';
import { type ListStreamOptions, streamList } from './list-stream.ts';
import {
  apiVersionOf,
  describeTarget,
  type KubeList,
  type KubeObject,
  resourcePath,
  type ResourceType,
  type Target,
} from '../object/object.ts';
import { podLogLines, type PodLogOptions } from './pod-log.ts';
import { type Watch, watchEvents, type WatchEvent, watchLines, type WatchOptions } from './watch.ts';

const patchTypes = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
} as const;

/** A server that cannot send the metadata alone sends the whole object. */
const METADATA_ONLY = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json';

const TIMEOUT_MS = 30_000;
const LIST_TIMEOUT_MS = 60_000;

/**
 * A client of one API server. The owner disposes it, which closes all connections.
 *
 * Every call throws {@link KubeError} for an error that the server answers with, {@link RampartError}
 * `API_UNREACHABLE` without a usable answer (also after a timeout), and its signal's reason when that aborts.
 *
 * @example
 * using client = new KubeClient(findClusterAccess());
 * const lease = await client.get(leases, { namespace: 'kube-system', name: 'rampart' }, { signal });
 */
export class KubeClient implements Disposable {
  readonly #connection: Connection;

  /** @throws {RampartError} `INPUT` for a rate limit that cannot work. */
  constructor(access: ClusterAccess, options: ConnectionOptions = {}) {
    this.#connection = new Connection(access, options);
  }

  /** The namespace to work in if none is named. */
  get namespace(): string {
    return this.#connection.access.namespace;
  }

  /** Another client of the same server, with connections and a rate limit of its own. The caller disposes it. */
  as(credentials: Credentials, options: ConnectionOptions = {}): KubeClient {
    const { headers: _impersonation, ...access } = this.#connection.access;
    return new KubeClient({ ...access, credentials }, options);
  }

  [Symbol.dispose](): void {
    this.#connection[Symbol.dispose]();
  }

  /** Closes connections that no request is using, some 100 kB each; otherwise they are kept for a minute. */
  closeUnusedConnections(): void {
    this.#connection.closeUnused();
  }

  get<T extends KubeObject>(
    type: ResourceType<T>,
    target: ObjectTarget,
    options: CallOptions = {},
  ): Promise<T> {
    return this.#call('get', type, target, { method: 'GET', ...options });
  }

  /** A collection, or one page of it; of all namespaces if `target` names none. */
  list<T extends KubeObject>(
    type: ResourceType<T>,
    target: Target = {},
    options: ListOptions = {},
  ): Promise<KubeList<T>> {
    const { signal, timeoutMs = LIST_TIMEOUT_MS, ...query } = options;
    return this.#call('list', type, target, { method: 'GET', query, signal, timeoutMs });
  }

  /**
   * Like `list`, with each item handed to `onItem` as JSON while the list arrives: no more of it is held in memory than
   * one item and what the connection has buffered, and the event loop goes on in between.
   *
   * @throws besides what calls throw, and what `onItem` throws: {@link RampartError} `LIMIT` for an item that is too long.
   *   Items before an error have been handed out.
   */
  listItems(type: ResourceType, target: Target, options: ListStreamOptions): Promise<KubeList['metadata']> {
    const listed = { what: `list ${describeTarget(type, target)}`, path: resourcePath(type, target) };
    return streamList(this.#connection, listed, options);
  }

  /**
   * Creates an object. With `subresource` (such as `token`), posts to that of the existing object of this name, and returns its answer.
   *
   * @throws {KubeError} {@link isAlreadyExists} if there is an object with this name.
   */
  create<T extends KubeObject>(
    type: ResourceType<T>,
    object: T,
    options: WriteOptions & { readonly subresource?: string } = {},
  ): Promise<T> {
    const { subresource, ...more } = options;
    const { namespace } = object.metadata;
    const target = subresource === undefined ? { namespace } : { ...targetOf(object), subresource };
    return this.#call('create', type, target, { method: 'POST', body: typed(type, object), ...more });
  }

  /**
   * Replaces an object, or its `subresource` (`status`).
   *
   * @throws {KubeError} {@link isConflict} if its version is no longer `metadata.resourceVersion`.
   */
  update<T extends KubeObject>(
    type: ResourceType<T>,
    object: T,
    options: WriteOptions & { readonly subresource?: string } = {},
  ): Promise<T> {
    const target = { ...targetOf(object), subresource: options.subresource };
    return this.#call('update', type, target, { method: 'PUT', body: typed(type, object), ...options });
  }

  patch<T extends KubeObject>(
    type: ResourceType<T>,
    target: ObjectTarget,
    patch: Patch,
    options: WriteOptions = {},
  ): Promise<T> {
    const contentType = patchTypes[patch.type];
    return this.#call('patch', type, target, { method: 'PATCH', body: patch.body, contentType, ...options });
  }

  /**
   * Server-side apply: sets the fields of `object`, creates it if needed, and gives up fields that this
   * manager applied before and that are missing now.
   *
   * @throws {KubeError} {@link isConflict} when another manager owns one of the fields, unless `force` is
   * set.
   */
  apply<T extends KubeObject>(type: ResourceType<T>, object: T, options: ApplyOptions): Promise<T> {
    const { managedFields: _theServersOwn, ...metadata } = object.metadata;
    const target = { ...targetOf(object), subresource: options.subresource };
    return this.#call('apply', type, target, {
      method: 'PATCH',
      contentType: 'application/apply-patch+yaml',
      body: { ...typed(type, object), metadata },
      idempotent: true,
      ...options,
    });
  }

  /**
   * Returns the last state of the object, or a Status.
   *
   * @throws {KubeError} {@link isNotFound} when it is gone already.
   */
  delete(type: ResourceType, target: ObjectTarget, options: DeleteOptions = {}): Promise<unknown> {
    return this.#call('delete', type, target, deletion(options));
  }

  deleteCollection(type: ResourceType, target: Target, options: DeleteOptions = {}): Promise<unknown> {
    return this.#call('delete all', type, target, deletion(options));
  }

  /**
   * The changes of a collection, from the moment that the iteration begins. It ends when the server ends it, which
   * it does after some minutes: watch again from the last version. Leaving the loop ends the watch.
   *
   * @throws besides what calls throw: {@link KubeError} for an ERROR event ({@link isGone}: list again),
   *   {@link RampartError} `LIMIT` for an event that is too long.
   */
  watch<T extends KubeObject>(
    type: ResourceType<T>,
    target: Target = {},
    options: WatchOptions = {},
  ): AsyncGenerator<WatchEvent<T>, void> {
    return watchEvents(this.#connection, this.#watch(type, target), options);
  }

  /** Like `watch`, with each event as the received line, not parsed. ERROR events are lines too. */
  watchLines(
    type: ResourceType,
    target: Target = {},
    options: WatchOptions = {},
  ): AsyncGenerator<string, void> {
    return watchLines(this.#connection, this.#watch(type, target), options);
  }

  /**
   * The lines of a container's log, without their newlines; with `follow` also later ones, until the
   * container ends. Invalid UTF-8 is replaced, and lines of more than 1 MiB are omitted. Leaving the loop
   * ends the request.
   */
  podLog(
    target: { readonly namespace: string; readonly name: string },
    options: PodLogOptions = {},
  ): AsyncGenerator<string, void> {
    return podLogLines(this.#connection, target, options);
  }

  /** A GET of any path: discovery (`/apis`, `/api/v1`), `/version`, `/openapi/v3`. */
  async getPath<T>(path: string, options: CallOptions & { readonly accept?: string } = {}): Promise<T> {
    const { signal, timeoutMs = TIMEOUT_MS, accept } = options;
    const request = {
      what: `get ${path}`,
      method: 'GET',
      path,
      idempotent: true,
      ...(accept && { accept }),
    } as const;
    return this.#withScope(request, signal, timeoutMs, (scope) => this.#connection.json<T>(request, scope));
  }

  #watch(type: ResourceType, target: Target): Watch {
    return { what: `watch ${describeTarget(type, target)}`, path: resourcePath(type, target) };
  }

  async #call<Answer>(verb: string, type: ResourceType, target: Target, call: Call): Promise<Answer> {
    const { method, body, contentType, signal, timeoutMs = TIMEOUT_MS } = call;
    const request: ApiRequest = {
      what: `${verb} ${describeTarget(type, target)}`,
      method,
      path: resourcePath(type, target),
      query: searchParams({ ...call.query, ...writeQuery(call) }),
      idempotent: call.idempotent ?? (method !== 'POST' && method !== 'PATCH'),
      body,
      contentType,
      ...(call.metadataOnly === true && { accept: METADATA_ONLY }),
    };
    return this.#withScope(request, signal, timeoutMs, (scope) =>
      this.#connection.json<Answer>(request, scope),
    );
  }

  async #withScope<Answer>(
    { what }: ApiRequest,
    signal: AbortSignal | undefined,
    timeoutMs: number,
    run: (scope: CallScope) => Promise<Answer>,
  ): Promise<Answer> {
    using scope = new CallScope(this.#connection.clock, signal);
    scope.limit(timeoutMs, () => unreachable(what, `no response within ${timeoutMs} ms`));
    return await run(scope);
  }
}

interface Call extends WriteOptions {
  readonly method: ApiRequest['method'];
  readonly query?: Query;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly idempotent?: boolean;
  readonly force?: boolean;
}

function writeQuery({ fieldManager, dryRun, fieldValidation, force }: Call): Query {
  return { fieldManager, dryRun: dryRun ? 'All' : undefined, fieldValidation, force: force || undefined };
}

function deletion(options: DeleteOptions): Call {
  const { signal, timeoutMs, dryRun, gracePeriodSeconds, preconditions } = options;
  const body = {
    apiVersion: 'v1',
    kind: 'DeleteOptions',
    gracePeriodSeconds,
    preconditions,
    ...(dryRun && { dryRun: ['All'] }),
  };
  return { method: 'DELETE', body, signal, timeoutMs };
}

/** Sets `apiVersion` and `kind`: the server requires them, but objects from a list have none. */
function typed<T extends KubeObject>(type: ResourceType<T>, object: T): T {
  return { apiVersion: apiVersionOf(type), kind: type.kind, ...object };
}

function targetOf({ metadata: { namespace, name } }: KubeObject): Target {
  return { namespace, name };
}
