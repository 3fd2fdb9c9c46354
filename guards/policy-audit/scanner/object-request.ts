/** An object as policies are asked about it, and as reports name it. */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { apiVersionOf, type KubeObject } from '../../../lib/kube/object/object.ts';
import type { GroupVersionResource, JsonObject, PolicyRequest } from '../engine/evaluator.ts';
import type { Scope } from '../reports/report.ts';
import type { ServedKind } from './served-kinds.ts';

/**
 * The request of its creation, without a user.
 *
 * @param shown - The version to show it in; it is read again if that is another one.
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
