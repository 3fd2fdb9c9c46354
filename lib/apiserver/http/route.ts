import { ApiError, apiErrors } from '../resources/api-error.ts';
import type { Registry } from '../resources/registry.ts';
import type { Resource, Subresource, Verb } from '../resources/resource.ts';
import { booleanOf } from '../verbs/query.ts';
import type { ResourcePath } from './request-path.ts';

export interface ResourceRoute {
  readonly verb: Verb;
  readonly resource: Resource;
  readonly subresource: Subresource | undefined;
  readonly namespace: string;
  readonly name: string;
}

/** Subresources that need a kubelet, which this server lacks. Clients show the message to their users. */
const ofKubelets: ReadonlySet<string> = new Set(['attach', 'exec', 'portforward', 'proxy']);

/** The error 405, with the allowed methods. */
export class MethodNotAllowedError extends ApiError {
  readonly allow: string;

  constructor({ status }: ApiError, allow: readonly string[]) {
    super(status);
    this.allow = allow.join(', ');
  }
}

type MethodVerbs = readonly (readonly [method: string, verbs: readonly Verb[]])[];

const collectionVerbs: MethodVerbs = [
  ['GET', ['list', 'watch']],
  ['POST', ['create']],
  ['DELETE', ['deletecollection']],
];
const everywhereVerbs: MethodVerbs = [['GET', ['list', 'watch']]];
const itemVerbs: MethodVerbs = [
  ['GET', ['get']],
  ['PUT', ['update']],
  ['PATCH', ['patch']],
  ['DELETE', ['delete']],
];

/**
 * @throws {ApiError} 404 if nothing is served at the path, {@link MethodNotAllowedError} if it does not support the method.
 */
export function routeRequest(
  registry: Pick<Registry, 'find'>,
  path: ResourcePath,
  method: string,
  query: URLSearchParams,
): ResourceRoute {
  const { namespace, name } = path;
  const resource = registry.find(path.group, path.version, path.plural);
  if (resource === undefined) throw apiErrors.noRoute();
  const { namespaced } = resource;
  if (namespace !== '' && !namespaced) throw apiErrors.noRoute();
  const isEverywhere = namespaced && namespace === '';
  if (isEverywhere && name !== '') throw apiErrors.noRoute();
  const subresource = path.subresource === '' ? undefined : resource.subresources.get(path.subresource);
  if (subresource === undefined && path.subresource !== '') {
    if (resource.storeName === 'pods' && ofKubelets.has(path.subresource)) {
      throw apiErrors.notServed(resource, path.subresource);
    }
    throw apiErrors.noRoute();
  }

  const table = name !== '' ? itemVerbs : isEverywhere ? everywhereVerbs : collectionVerbs;
  const served: ReadonlySet<Verb> = subresource?.verbs ?? resource.verbs;
  if (path.isWatchPath) {
    if (method !== 'GET' || subresource !== undefined || !served.has('watch')) {
      throw notAllowed(resource, 'watch', served.has('watch') ? ['GET'] : []);
    }
    if (name !== '') query.append('fieldSelector', `metadata.name=${name}`);
    return { verb: 'watch', resource, subresource, namespace, name: '' };
  }
  const verb = verbOf(method, name === '', query);
  const exists = table.some(([one, verbs]) => one === method && verb !== undefined && verbs.includes(verb));
  if (verb === undefined || !exists || !served.has(verb)) {
    // crdHandler of apiextensions-apiserver has no such path for custom resources.
    if (isEverywhere && resource.isCustom) throw apiErrors.noRoute();
    throw notAllowed(
      resource,
      verb ?? method.toLowerCase(),
      table.filter(([, verbs]) => verbs.some((one) => served.has(one))).map(([one]) => one),
    );
  }
  return { verb, resource, subresource, namespace, name };
}

function verbOf(method: string, isCollection: boolean, query: URLSearchParams): Verb | undefined {
  switch (method) {
    case 'GET':
      return isCollection ? (booleanOf(query, 'watch') === true ? 'watch' : 'list') : 'get';
    case 'POST':
      return 'create';
    case 'PUT':
      return 'update';
    case 'PATCH':
      return 'patch';
    case 'DELETE':
      return isCollection ? 'deletecollection' : 'delete';
    default:
      return undefined;
  }
}

function notAllowed(resource: Resource, verb: string, allow: readonly string[]): MethodNotAllowedError {
  return new MethodNotAllowedError(apiErrors.methodNotAllowed(resource, verb), allow);
}
