import type { PlainAnswer, PlainRequest, PlainRoute } from '../http/plain.ts';
import { negotiate, offeredMediaTypes } from '../render/format.ts';
import { renderBody } from '../render/render.ts';
import { apiErrors } from '../resources/api-error.ts';
import type { Registry } from '../resources/registry.ts';
import {
  aggregatedContentType,
  aggregatedVersion,
  type AggregatedVersion,
  apiGroupDiscoveryList,
} from './aggregated.ts';
import { hashOf, headerOf, taggedAnswer } from './documents.ts';
import { type Group, groupsOf } from './groups.ts';
import { apiGroup, apiGroupList, apiResourceList, apiVersions, isNamed } from './legacy.ts';

/** The documents for one generation of the registry; those for aggregated discovery are made on first use. */
interface Snapshot {
  readonly generation: number;
  readonly groups: readonly Group[];
  readonly documents: ReadonlyMap<string, object>;
  readonly aggregated: Map<string, { readonly text: string; readonly hash: string }>;
}

/** Paths that other routes serve, for the list of all paths at `/`. */
const otherPaths: readonly string[] = [
  '/healthz',
  '/livez',
  '/metrics',
  '/openapi/v2',
  '/openapi/v3',
  '/openapi/v3/',
  '/readyz',
  '/version',
];

/**
 * Serves `/`, `/api`, `/apis` and the paths below them that are not about objects.
 *
 * The caller checks the method.
 *
 * @throws {ApiError} 406 where neither JSON nor YAML is accepted.
 */
export function discoveryRoutes(registry: Registry): PlainRoute {
  let latest: Snapshot | undefined;
  const snapshot = (): Snapshot => {
    if (latest?.generation !== registry.generation) latest = snapshotOf(registry);
    return latest;
  };
  return (request) => {
    const path = request.path.length > 1 ? request.path.replace(/\/$/, '') : request.path;
    // Sorts out requests for objects, which are more frequent: discovery has fewer path segments.
    if (!mayBeDiscovery(path)) return undefined;
    const current = snapshot();
    const aggregates = path === '/api' || path === '/apis';
    const document =
      path === '/api' ? apiVersions(coreOf(current), hostOf(request)) : current.documents.get(path);
    if (document === undefined) return undefined;
    const aggregated = aggregates ? aggregatedVersion(headerOf(request, 'accept')) : undefined;
    if (aggregated !== undefined) return aggregatedAnswer(request, current, path, aggregated);
    return documentAnswer(request, document, aggregates);
  };
}

function mayBeDiscovery(path: string): boolean {
  if (path === '/') return true;
  if (!path.startsWith('/api')) return false;
  const parts = path.split('/', 6).length - 1;
  return path.startsWith('/apis') ? parts <= 3 : parts <= 2;
}

function snapshotOf(registry: Registry): Snapshot {
  const groups = groupsOf(registry);
  const documents = new Map<string, object>([['/apis', apiGroupList(groups)]]);
  for (const group of groups) {
    if (isNamed(group)) documents.set(`/apis/${group.name}`, apiGroup(group));
    for (const one of group.versions) {
      documents.set(`${isNamed(group) ? '/apis' : '/api'}/${one.apiVersion}`, apiResourceList(one));
    }
  }
  const paths = ['/api', '/apis/', ...otherPaths, ...documents.keys()].sort();
  documents.set('/', { paths });
  return { generation: registry.generation, groups, documents, aggregated: new Map() };
}

function documentAnswer(request: PlainRequest, document: object, varies: boolean): PlainAnswer {
  const format = negotiate(headerOf(request, 'accept'), 'item', request.query);
  if (format === undefined) throw apiErrors.notAcceptable(offeredMediaTypes);
  return {
    code: 200,
    headers: { 'content-type': format.contentType, ...(varies ? { vary: 'Accept' } : {}) },
    body: renderBody(document, format),
  };
}

function aggregatedAnswer(
  request: PlainRequest,
  { aggregated, groups }: Snapshot,
  path: string,
  version: AggregatedVersion,
): PlainAnswer {
  const key = `${path} ${version}`;
  let document = aggregated.get(key);
  if (document === undefined) {
    const shown = groups.filter((group) => isNamed(group) === (path === '/apis'));
    const text = JSON.stringify(apiGroupDiscoveryList(shown, version));
    aggregated.set(key, (document = { text, hash: hashOf(text) }));
  }
  const { text, hash } = document;
  const headers = { 'content-type': aggregatedContentType(version), 'cache-control': 'public' };
  return taggedAnswer(request, hash, headers, () => text);
}

function coreOf({ groups }: Snapshot): Group | undefined {
  return groups.find((group) => !isNamed(group));
}

/** The address by which the client reached this server, from its Host header. */
function hostOf(request: PlainRequest): string {
  return headerOf(request, 'host') ?? 'localhost';
}
