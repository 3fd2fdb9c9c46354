/** Policies' read access to a cluster, either through the API or from caches. */
import type { AskedOfCluster, JsonObject } from '../evaluator.ts';

/** A kind that a policy may query. */
export interface KindName {
  readonly apiVersion: string;
  readonly kind: string;
}

export interface ReadOptions {
  /** Whether the current state is needed, not a cached one that may be some seconds old. */
  readonly fresh?: boolean;
  readonly signal?: AbortSignal | undefined;
}

export interface ListSelection {
  /** Default: all namespaces, or all cluster-scoped objects. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}

/** Callers must not change the returned objects. All methods throw errors whose messages a policy may see. */
export interface ClusterReader {
  /** The object; undefined if it does not exist. */
  get(
    kind: KindName,
    target: { readonly name: string; readonly namespace?: string | undefined },
    options?: ReadOptions,
  ): Promise<JsonObject | undefined>;
  list(kind: KindName, selection: ListSelection, options?: ReadOptions): Promise<readonly JsonObject[]>;
  /** The plural, as in API paths: `deployments`. */
  plural(kind: KindName, options?: ReadOptions): Promise<string>;
  /** @param spec - The spec of a SubjectAccessReview. @returns its status. */
  canI(spec: JsonObject, options?: ReadOptions): Promise<JsonObject>;
}

/** How an access check appears among a verdict's requests. */
export const askedAccess: AskedOfCluster = {
  apiVersion: 'authorization.k8s.io/v1',
  kind: 'SubjectAccessReview',
};

/** How a host call appears among a verdict's requests; undefined if the call requests nothing or is malformed. */
export function askedOf(
  { namespace, operation }: { readonly namespace: string; readonly operation: string },
  payload: Uint8Array,
): AskedOfCluster | undefined {
  if (namespace === 'tracing') return undefined;
  if (namespace !== 'kubernetes') return { apiVersion: 'kubewarden', kind: `${namespace}/${operation}` };
  if (operation === 'can_i') return askedAccess;
  let said: unknown;
  try {
    said = JSON.parse(new TextDecoder().decode(payload));
  } catch {
    return undefined;
  }
  if (typeof said !== 'object' || said === null) return undefined;
  const { api_version: apiVersion, kind, namespace: within, name } = said as Record<string, unknown>;
  if (typeof apiVersion !== 'string' || typeof kind !== 'string') return undefined;
  return {
    apiVersion,
    kind,
    ...(typeof within === 'string' && operation !== 'list_resources_all' && { namespace: within }),
    ...(typeof name === 'string' && operation === 'get_resource' && { name }),
  };
}
