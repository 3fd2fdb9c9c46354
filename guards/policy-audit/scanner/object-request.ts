/** An object in the form in which policies evaluate it and reports name it. */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { apiVersionOf, type KubeObject } from '../../../lib/kube/object/object.ts';
import type { GroupVersionResource, JsonObject, PolicyRequest } from '../engine/evaluator.ts';
import type { Scope } from '../reports/report.ts';
import type { ServedKind } from './served-kinds.ts';

/**
 * The request that would create the object, without a user.
 *
 * @param shown - The version in which the policy sees the object. If the object has another version, it is read
 * again.
 * @throws {KubeError} if it cannot be read
 */
export async function objectRequest(
  client: KubeClient,
  { type, versions }: ServedKind,
  shown: GroupVersionResource,
  object: KubeObject,
  signal: AbortSignal,
): Promise<PolicyRequest> {
  const { uid = '', name = '', namespace } = object.metadata;
  const isOther = versions[0] !== shown && (shown.group !== type.group || shown.version !== type.version);
  const asked = { group: shown.group, version: shown.version };
  const seen = isOther
    ? await client.get(
        { ...type, ...asked },
        { name, ...(namespace !== undefined && { namespace }) },
        { signal },
      )
    : object;
  return {
    uid,
    operation: 'CREATE',
    kind: { ...asked, kind: type.kind },
    resource: { ...asked, resource: type.plural },
    name,
    ...(namespace !== undefined && { namespace }),
    userInfo: {},
    object: seen as unknown as JsonObject,
    oldObject: null,
    dryRun: false,
    options: null,
  };
}

export function scopeOf({ type }: ServedKind, { metadata }: KubeObject): Scope {
  const { namespace, name = '', uid = '', resourceVersion = '' } = metadata;
  return {
    apiVersion: apiVersionOf(type),
    kind: type.kind,
    ...(namespace !== undefined && namespace !== '' && { namespace }),
    name,
    uid,
    resourceVersion,
  };
}
