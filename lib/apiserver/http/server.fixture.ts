/** A server for the tests: two kinds, verbs that a test gives, and the real renderer. */
import { createLogger } from '../../telemetry/log.ts';
import { renderer } from '../render/renderer.ts';
import { Item } from '../resources/item.ts';
import { Registry } from '../resources/registry.ts';
import { plainResource } from '../resources/resource.fixture.ts';
import type { Resource, Subresource } from '../resources/resource.ts';
import type { JsonObject } from '../../json/json.ts';
import type { ResourceAnswer, ResourceRequest, User } from '../verbs/request.ts';
import { type HttpServer, serveHttp } from './server.ts';
import type { HttpServerOptions } from './server-options.ts';

const notThere = (): never => {
  throw new Error('the fixture has no model');
};

const status: Subresource = {
  name: 'status',
  verbs: new Set(['get', 'patch', 'update']),
  group: '',
  version: 'v1',
  kind: 'Pod',
  read: (object) => object,
  write: (object) => object,
  model: undefined,
  openApi: undefined,
  resetFields: () => [],
};

export function resourceOf(
  parts: Partial<Resource> & Pick<Resource, 'kind' | 'plural' | 'namespaced'>,
): Resource {
  return {
    ...plainResource(parts),
    subresources: new Map([['status', status]]),
    get model() {
      return notThere();
    },
    get openApi() {
      return notThere();
    },
    ...parts,
  };
}

export const pods = resourceOf({ kind: 'Pod', plural: 'pods', namespaced: true });
export const namespaces = resourceOf({ kind: 'Namespace', plural: 'namespaces', namespaced: false });
export const widgets = resourceOf({
  kind: 'Widget',
  plural: 'widgets',
  namespaced: true,
  group: 'example.com',
  isCustom: true,
});

export function registryOfThings(): Registry {
  const registry = new Registry();
  for (const resource of [pods, namespaces, widgets]) registry.add([resource]);
  return registry;
}

export const token = 'open-sesame';
export const admin: User = { name: 'admin', groups: ['system:masters'] };

/** Answers with what was understood of the request. */
export function echo(request: ResourceRequest): ResourceAnswer {
  const { verb, namespace, name, subresource, query, body, patchType, resource } = request;
  const understood: JsonObject = {
    kind: resource.kind,
    apiVersion: 'v1',
    verb,
    namespace,
    name,
    subresource: subresource?.name ?? null,
    query: [...query].map(([key, value]) => `${key}=${value}`),
    patchType: patchType ?? null,
    // A bigint has no JSON.
    body: JSON.stringify(body?.value, (_key, value: unknown) =>
      typeof value === 'bigint' ? `bigint ${value}` : value,
    ),
    duplicates: body?.duplicates ?? null,
  };
  return { kind: 'item', code: verb === 'create' ? 201 : 200, item: Item.ofObject(resource, understood) };
}

/** On loopback, without TLS, with {@link token}. The caller disposes it. */
export function serveThings(
  handle: (request: ResourceRequest) => ResourceAnswer | Promise<ResourceAnswer> = echo,
  options: Partial<HttpServerOptions> = {},
): Promise<HttpServer> {
  return serveHttp({
    verbs: { handle: async (request) => handle(request) },
    registry: registryOfThings(),
    renderer,
    routes: [],
    authenticate: (authorization) => (authorization === `Bearer ${token}` ? admin : undefined),
    listen: { host: '127.0.0.1', port: 0 },
    log: createLogger({ level: 'silent' }),
    ...options,
  });
}
