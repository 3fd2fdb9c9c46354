import type { V1APIGroupList, V1APIResource } from '@kubernetes/client-node';

import type { KubeClient } from './client.ts';
import type { CallOptions } from './client-options.ts';
import type { ResourceType, Wire } from '../object/object.ts';
export type ApiResource = Wire<V1APIResource>;

/** All groups except the core group, each with its versions and the preferred one. */
export async function apiGroups(
  client: KubeClient,
  options?: CallOptions,
): Promise<Wire<V1APIGroupList>['groups']> {
  return (await client.getPath<Wire<V1APIGroupList>>('/apis', options)).groups;
}

/** The resources of a version, with subresources such as `pods/status`. @throws {KubeError} `isNotFound` if it is not served. */
export async function apiResources(
  client: Pick<KubeClient, 'getPath'>,
  { group, version }: Pick<ResourceType, 'group' | 'version'>,
  options?: CallOptions,
): Promise<readonly ApiResource[]> {
  const path = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  return (await client.getPath<{ readonly resources: readonly ApiResource[] }>(path, options)).resources;
}
