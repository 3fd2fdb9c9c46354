/**
 * The part of the cluster that expressions may read: parameters, the namespace of the object, other objects.
 * The source depends on the owner of the evaluator: synced caches answer at once, host calls later.
 */
import type { AccessCheck, AccessDecision } from '../../../../lib/cel/authorizer.ts';
import { isObject } from '../../../../lib/json/json.ts';
import type { HostCalls, JsonObject } from '../evaluator.ts';

export interface ObjectReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
}

export interface ListReference {
  readonly apiVersion: string;
  readonly kind: string;
  /** Undefined: all namespaces, or cluster-scoped. */
  readonly namespace?: string;
  /** As text: `app=web,tier in (a, b)`. */
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** Answers are given at once, or as promises. An error that a method throws becomes the error of the expression. */
export interface ClusterReader {
  /** @returns undefined if there is no such object. */
  get(
    reference: ObjectReference,
    signal: AbortSignal,
  ): JsonObject | undefined | Promise<JsonObject | undefined>;
  /** @returns the list as the API server gives it, with `items`. */
  list(reference: ListReference, signal: AbortSignal): JsonObject | Promise<JsonObject>;
}

/** Checks whether a user may do something: by a SubjectAccessReview, or by the server's own authorizer. */
export type AccessReader = (
  check: AccessCheck,
  signal: AbortSignal,
) => AccessDecision | Promise<AccessDecision>;

/** Everything that expressions may ask for. */
export interface World {
  /** Undefined: expressions that request objects fail. */
  readonly cluster?: ClusterReader;
  /** Undefined: each check of `authorizer` results in an error, and allows nothing. */
  readonly access?: AccessReader;
}

/** Checks whether a user may do something, by the host call `can_i`. */
export function accessOf(hostCalls: HostCalls): AccessReader {
  return async ({ user, verb, path, fieldSelector, labelSelector, ...resource }, signal) => {
    const { username, ...more } = user;
    const selectors = {
      ...(fieldSelector !== undefined && { fieldSelector: { rawSelector: fieldSelector } }),
      ...(labelSelector !== undefined && { labelSelector: { rawSelector: labelSelector } }),
    };
    const attributes =
      path === undefined
        ? { resource_attributes: { ...resource, ...selectors, verb } }
        : { non_resource_attributes: { path, verb } };
    const payload = { subject_access_review: { user: username, ...more, ...attributes } };
    const { allowed, reason, evaluationError } = await called(hostCalls, 'can_i', payload, signal);
    return {
      allowed: allowed === true,
      ...(typeof reason === 'string' && { reason }),
      ...(typeof evaluationError === 'string' && evaluationError !== '' && { error: evaluationError }),
    };
  };
}

async function called(
  hostCalls: HostCalls,
  operation: string,
  payload: JsonObject,
  signal: AbortSignal,
): Promise<JsonObject> {
  const name = { binding: 'kubewarden', namespace: 'kubernetes', operation };
  const answer = await hostCalls.call(name, Buffer.from(JSON.stringify(payload)), signal);
  const value: unknown = JSON.parse(Buffer.from(answer).toString());
  if (!isObject(value)) throw new Error(`the response to ${operation} is not an object`);
  return value;
}

/** Reads the cluster by the host calls of WebAssembly policies (namespace `kubernetes`). */
export function clusterOf(hostCalls: HostCalls): ClusterReader {
  const call = (operation: string, payload: JsonObject, signal: AbortSignal): Promise<JsonObject> =>
    called(hostCalls, operation, payload, signal);
  const kindOf = ({ apiVersion, kind }: ListReference | ObjectReference): JsonObject => ({
    api_version: apiVersion,
    kind,
  });
  return {
    get: ({ name, namespace, ...rest }, signal) =>
      call(
        'get_resource',
        {
          ...kindOf({ name, ...rest }),
          name,
          ...(namespace !== undefined && { namespace }),
          disable_cache: false,
        },
        signal,
      ),
    list: ({ namespace, labelSelector, fieldSelector, ...rest }, signal) =>
      call(
        namespace === undefined ? 'list_resources_all' : 'list_resources_by_namespace',
        {
          ...kindOf(rest),
          ...(namespace !== undefined && { namespace }),
          ...(labelSelector !== undefined && { label_selector: labelSelector }),
          ...(fieldSelector !== undefined && { field_selector: fieldSelector }),
        },
        signal,
      ),
  };
}
