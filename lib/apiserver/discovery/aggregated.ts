/** Aggregated discovery: all kinds in one document (KEP-3352; k8s.io/api `apidiscovery/v2/types.go`). */
import { matches, parseAccept } from '../render/accept.ts';
import type { Resource, Subresource } from '../resources/resource.ts';
import type { Group, GroupVersion } from './groups.ts';
import { sortedSubresources } from './legacy.ts';

const aggregatedVersions = ['v2', 'v2beta1'] as const;
export type AggregatedVersion = (typeof aggregatedVersions)[number];

/** The version of aggregated discovery that an Accept header prefers; `undefined` if it prefers unaggregated discovery. */
export function aggregatedVersion(accept: string | undefined): AggregatedVersion | undefined {
  for (const range of parseAccept(accept ?? '')) {
    if (!matches(range, 'application', 'json')) continue;
    const [as, group, version] = ['as', 'g', 'v'].map((name) => range.parameters.get(name));
    if (as === undefined && group === undefined && version === undefined) return undefined;
    const known = aggregatedVersions.find((one) => one === version);
    if (as === 'APIGroupDiscoveryList' && group === 'apidiscovery.k8s.io' && known !== undefined)
      return known;
  }
  return undefined;
}

/** By this type, clients recognize that they got aggregated discovery (client-go `discovery/discovery_client.go`). */
export function aggregatedContentType(version: AggregatedVersion): string {
  return `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`;
}

export function apiGroupDiscoveryList(groups: readonly Group[], version: AggregatedVersion): object {
  return {
    kind: 'APIGroupDiscoveryList',
    apiVersion: `apidiscovery.k8s.io/${version}`,
    metadata: {},
    items: groups.map(({ name, versions }) => ({
      metadata: name === '' ? {} : { name },
      versions: versions.map(versionOf),
    })),
  };
}

function versionOf({ version, resources }: GroupVersion): object {
  return { version, resources: resources.map(resourceOf), freshness: 'Current' };
}

function resourceOf(resource: Resource): object {
  const { group, version, kind, plural, singular, namespaced, verbs, shortNames, categories } = resource;
  const subresources = sortedSubresources(resource).map((subresource) => subresourceOf(subresource));
  return {
    resource: plural,
    responseKind: { group, version, kind },
    scope: namespaced ? 'Namespaced' : 'Cluster',
    singularResource: singular,
    verbs: [...verbs].sort(),
    ...(shortNames.length === 0 ? {} : { shortNames }),
    ...(categories.length === 0 ? {} : { categories }),
    ...(subresources.length === 0 ? {} : { subresources }),
  };
}

function subresourceOf({ name, group, version, kind, verbs }: Subresource): object {
  return { subresource: name, responseKind: { group, version, kind }, verbs: [...verbs].sort() };
}
