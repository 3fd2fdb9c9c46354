/** Requests that the server makes to itself, through the same verbs as its clients. */
import { ApiError } from '../resources/api-error.ts';
import type { Item } from '../resources/item.ts';
import type { Resource } from '../resources/resource.ts';
import type { JsonObject } from '../../json/json.ts';
import type { PatchMediaType, ResourceAnswer, ResourceRequest, User } from '../verbs/request.ts';

/** The part of `Verbs` that is needed. */
export interface VerbHandler {
  handle(request: ResourceRequest): Promise<ResourceAnswer>;
}

export interface Place {
  /** '' for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
}

export interface DeleteOptions {
  readonly uid?: string | undefined;
  readonly resourceVersion?: bigint | undefined;
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
  readonly gracePeriodSeconds?: number;
}

type Parts = Pick<ResourceRequest, 'name' | 'namespace' | 'verb'> & {
  readonly subresource?: string | undefined;
  readonly body?: JsonObject;
  readonly patchType?: PatchMediaType;
};

/** Calls as the user of one part of the server. All throw `ApiError`, like the verbs. */
export class VerbCalls {
  readonly #verbs: VerbHandler;
  readonly #user: User;
  readonly #userAgent: string;

  /**
   * @param part the user name of the calling part: `system:serviceaccount:kube-system:generic-garbage-collector`
   * @param userAgent from which the field manager is derived.
   */
  constructor(verbs: VerbHandler, part: string, userAgent = 'rampart-apiserver') {
    this.#verbs = verbs;
    this.#userAgent = userAgent;
    this.#user = { name: part, groups: ['system:masters', 'system:authenticated'] };
  }

  /** All objects of a kind, in all namespaces. */
  async list(resource: Resource, signal: AbortSignal): Promise<readonly Item[]> {
    const answer = await this.#handle(resource, { verb: 'list', namespace: '', name: '' }, signal);
    if (answer.kind !== 'list') throw new TypeError(`list was answered with a ${answer.kind}`);
    return answer.list.items;
  }

  create(resource: Resource, namespace: string, object: JsonObject, signal: AbortSignal): Promise<Item> {
    const name = '';
    return this.#item(resource, { verb: 'create', namespace, name, body: object }, signal);
  }

  /** PUT, which may modify `object`. Its `resourceVersion` has to be the present one. */
  update(
    resource: Resource,
    place: Place,
    object: JsonObject,
    signal: AbortSignal,
    subresource?: string,
  ): Promise<Item> {
    return this.#item(resource, { verb: 'update', ...place, body: object, subresource }, signal);
  }

  /** PATCH with a JSON merge patch. */
  patch(
    resource: Resource,
    { namespace, name }: Place,
    patch: JsonObject,
    signal: AbortSignal,
    subresource?: string,
  ): Promise<Item> {
    const patchType = 'application/merge-patch+json';
    return this.#item(
      resource,
      { verb: 'patch', namespace, name, body: patch, patchType, subresource },
      signal,
    );
  }

  async delete(resource: Resource, place: Place, options: DeleteOptions, signal: AbortSignal): Promise<void> {
    const { uid, resourceVersion, propagationPolicy, gracePeriodSeconds } = options;
    const preconditions = { uid, resourceVersion: resourceVersion?.toString() };
    const body = {
      kind: 'DeleteOptions',
      apiVersion: 'v1',
      preconditions,
      propagationPolicy,
      gracePeriodSeconds,
    };
    await this.#handle(resource, { verb: 'delete', ...place, body }, signal);
  }

  /** Deletes all objects of a kind in a namespace, or all in the cluster. */
  async deleteCollection(
    resource: Resource,
    namespace: string,
    propagationPolicy: DeleteOptions['propagationPolicy'],
    signal: AbortSignal,
  ): Promise<void> {
    const body = { kind: 'DeleteOptions', apiVersion: 'v1', propagationPolicy };
    await this.#handle(resource, { verb: 'deletecollection', namespace, name: '', body }, signal);
  }

  async #item(resource: Resource, parts: Parts, signal: AbortSignal): Promise<Item> {
    const answer = await this.#handle(resource, parts, signal);
    if (answer.kind !== 'item') throw new TypeError(`${parts.verb} was answered with a ${answer.kind}`);
    return answer.item;
  }

  #handle(resource: Resource, parts: Parts, signal: AbortSignal): Promise<ResourceAnswer> {
    const { verb, namespace, name, body, patchType } = parts;
    const subresource =
      parts.subresource === undefined ? undefined : resource.subresources.get(parts.subresource);
    if (parts.subresource !== undefined && subresource === undefined) {
      throw new TypeError(`${resource.plural} have no ${parts.subresource}`);
    }
    return this.#verbs.handle({
      verb,
      resource,
      subresource,
      namespace,
      name,
      query: new URLSearchParams(),
      body: body === undefined ? undefined : { value: body, duplicates: [] },
      patchType,
      user: this.#user,
      userAgent: this.#userAgent,
      warnings: [],
      signal,
    });
  }
}

export function hasCode(error: unknown, code: number): boolean {
  return error instanceof ApiError && error.status.code === code;
}
