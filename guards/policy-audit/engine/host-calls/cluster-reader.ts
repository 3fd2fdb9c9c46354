/** Policies' read access to a cluster, whatever the source: the API, or caches of it. */
import type { AskedOfCluster, JsonObject } from '../evaluator.ts';

/** A kind that a policy may query. */
export interface KindName {
  readonly apiVersion: string;
  readonly kind: string;
}

export interface ReadOptions {
  /** The current state, not that of some seconds ago. */
  readonly fresh?: boolean;
  readonly signal?: AbortSignal | undefined;
}

export interface ListSelection {
  /** Default: all namespaces, or all cluster-scoped objects. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}

/** Callers must not change the objects that it returns. All methods throw errors whose messages a policy may see. */
export interface ClusterReader {
  /** Undefined if it does not exist. */
  get(
    kind: KindName,
    target: { readonly name: string; readonly namespace?: string | undefined },
    options?: ReadOptions,
  ): Promise<JsonObject | undefined>;
  list(kind: KindName, selection: ListSelection, options?: ReadOptions): Promise<readonly JsonObject[]>;
  /** As in paths: `deployments`. */
  plural(kind: KindName, options?: ReadOptions): Promise<string>;
  /** @param spec of a SubjectAccessReview. @returns its status. */
  canI(spec: JsonObject, options?: ReadOptions): Promise<JsonObject>;
}

/** The request of an access check. */
export const askedAccess: AskedOfCluster = {
  apiVersion: 'authorization.k8s.io/v1',
  kind: 'SubjectAccessReview',
};

/** The request of a host call; undefined if it has none or is malformed. */
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
