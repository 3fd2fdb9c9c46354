/**
 * Discovery with one document for each group and each version (apimachinery `pkg/apis/meta/v1/types.go`: APIGroup,
 * APIResourceList).
 */
import { createHash } from 'node:crypto';

import { apiVersionOf, type Resource, type Subresource } from '../resources/resource.ts';
import type { Group, GroupVersion } from './groups.ts';

/** The answer of `/apis`. */
export function apiGroupList(groups: readonly Group[]): object {
  return { kind: 'APIGroupList', apiVersion: 'v1', groups: groups.filter(isNamed).map(groupOf) };
}

/** The answer of `/apis/GROUP`. */
export function apiGroup(group: Group): object {
  return { kind: 'APIGroup', apiVersion: 'v1', ...groupOf(group) };
}

/** The answer of `/api`. `serverAddress` is this server's address as the client sees it. */
export function apiVersions(core: Group | undefined, serverAddress: string): object {
  return {
    kind: 'APIVersions',
    versions: (core?.versions ?? []).map(({ version }) => version),
    serverAddressByClientCIDRs: [{ clientCIDR: '0.0.0.0/0', serverAddress }],
  };
}

/** The answer of `/apis/GROUP/VERSION` and `/api/VERSION`. */
export function apiResourceList({ apiVersion, resources }: GroupVersion): object {
  return {
    kind: 'APIResourceList',
    apiVersion: 'v1',
    groupVersion: apiVersion,
    resources: resources.flatMap((resource) => [
      resourceOf(resource),
      ...sortedSubresources(resource).map((subresource) => subresourceOf(resource, subresource)),
    ]),
  };
}

/** Whether the group is not the core group, which is at `/api`. */
export function isNamed({ name }: Group): boolean {
  return name !== '';
}

export function sortedSubresources({ subresources }: Resource): readonly Subresource[] {
  return [...subresources.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function groupOf({ name, versions }: Group): object {
  const entries = versions.map(({ apiVersion, version }) => ({ groupVersion: apiVersion, version }));
  return { name, versions: entries, preferredVersion: entries[0] };
}

function resourceOf(resource: Resource): object {
  const { plural, singular, namespaced, kind, verbs, shortNames, categories } = resource;
  return {
    name: plural,
    singularName: singular,
    namespaced,
    kind,
    verbs: [...verbs].sort(),
    ...(shortNames.length === 0 ? {} : { shortNames }),
    ...(categories.length === 0 ? {} : { categories }),
    storageVersionHash: storageVersionHash(resource),
  };
}

function subresourceOf(resource: Resource, subresource: Subresource): object {
  const { name, group, version, kind, verbs } = subresource;
  const isOwnKind = apiVersionOf(subresource) === apiVersionOf(resource) && kind === resource.kind;
  return {
    name: `${resource.plural}/${name}`,
    singularName: '',
    namespaced: resource.namespaced,
    ...(isOwnKind ? {} : { group, version }),
    kind,
    verbs: [...verbs].sort(),
  };
}

/** Identifies the version in which objects are stored (apiserver `pkg/endpoints/discovery/storageversionhash.go`). */
export function storageVersionHash({
  group,
  storedApiVersion,
  kind,
}: Pick<Resource, 'group' | 'storedApiVersion' | 'kind'>): string {
  const version = storedApiVersion.slice(storedApiVersion.indexOf('/') + 1);
  const digest = createHash('sha256').update(`${group}/${version}/${kind}`).digest();
  return digest.subarray(0, 8).toString('base64');
}
