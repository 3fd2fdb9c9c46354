import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';

import {
  objectOf,
  pods,
  registryOf,
  resourceOf,
  widgetGroup,
  widgets,
  widgetsOf,
} from '../discovery/kinds.fixture.ts';
import type { PlainAnswer } from '../http/plain.ts';
import { ApiError } from '../resources/api-error.ts';
import { Registry } from '../resources/registry.ts';
import { isObject, type JsonObject } from '../../json/json.ts';
import { openApiRoutes } from './routes.ts';
import { schemaOf } from './v2.ts';

const protobuf = 'application/com.github.proto-openapi.spec.v2@v1.0+protobuf';

function client(registry: Registry) {
  const route = openApiRoutes(registry);
  const ask = (target: string, headers: Record<string, string> = {}): PlainAnswer | undefined => {
    const { pathname, searchParams } = new URL(target, 'http://localhost');
    return route({ method: 'GET', path: pathname, query: searchParams, headers });
  };
  const get = (target: string): JsonObject => {
    const answer = ask(target);
    assert.equal(answer?.code, 200, target);
    return objectOf(Buffer.from(answer.body).toString());
  };
  const index = () => {
    const paths = get('/openapi/v3')['paths'] as Record<string, { serverRelativeURL: string }>;
    return new Map(Object.entries(paths).map(([path, { serverRelativeURL }]) => [path, serverRelativeURL]));
  };
  const urlOf = (path: string): string => index().get(path) ?? assert.fail(`no document ${path}`);
  return { ask, get, index, urlOf };
}

type Json = Record<string, Record<string, JsonObject>>;

/** Every reference of a document. */
function* refsOf(value: unknown): Generator<string> {
  if (Array.isArray(value)) for (const item of value) yield* refsOf(item);
  if (!isObject(value)) return;
  for (const [name, field] of Object.entries(value)) {
    if (name === '$ref' && typeof field === 'string') yield field;
    else yield* refsOf(field);
  }
}

test('the list of documents', () => {
  const { index } = client(registryOf());
  assert.deepEqual(
    [...index()].map(([path, url]) => [path, url.replace(/=[0-9A-F]{64}$/, '=')]),
    ['api/v1', 'apis/apps/v1', `apis/${widgetGroup}/v1`, `apis/${widgetGroup}/v1beta1`].map((path) => [
      path,
      `/openapi/v3/${path}?hash=`,
    ]),
  );
});

test('no reference is open, in either version', () => {
  const { get, index } = client(registryOf());
  for (const url of index().values()) {
    const document = get(url);
    const { schemas } = document['components'] as Json;
    const refs = new Set(refsOf(document));
    assert.ok(refs.size > 5);
    for (const ref of refs) {
      assert.match(ref, /^#\/components\/schemas\//);
      assert.ok(schemas !== undefined && ref.slice(21) in schemas, ref);
    }
  }
  const { definitions, ...rest } = get('/openapi/v2');
  for (const ref of new Set(refsOf({ definitions, rest }))) {
    assert.match(ref, /^#\/definitions\//);
    assert.ok(isObject(definitions) && ref.slice(14) in definitions, ref);
  }
});

test('a schema that is nowhere is anything', () => {
  const registry = new Registry();
  const definitions = new Map([
    ['a.B', { type: 'object', properties: { c: { $ref: '#/components/schemas/a.C' } } }],
  ]);
  registry.add([
    resourceOf({ group: 'a', version: 'v1', plural: 'bs', kind: 'B', openApi: { name: 'a.B', definitions } }),
  ]);
  const { schemas } = client(registry).get('/openapi/v3/apis/a/v1')['components'] as Json;
  assert.deepEqual(schemas?.['a.C'], { 'x-kubernetes-preserve-unknown-fields': true });
});

test('operations', () => {
  const paths = client(registryOf()).get('/openapi/v3/api/v1')['paths'] as Json;
  const ids = Object.entries(paths)
    .filter(([path]) => path.includes('/pods'))
    .map(([path, item]) => [
      path,
      Object.fromEntries(
        Object.entries(item)
          .filter(([method]) => method !== 'parameters')
          .map(([method, { operationId, 'x-kubernetes-action': action }]) => [method, [operationId, action]]),
      ),
    ]);
  // Names as in kubernetes api/openapi-spec/v3/api__v1_openapi.json.
  assert.deepEqual(Object.fromEntries(ids), {
    '/api/v1/pods': { get: ['listCoreV1PodForAllNamespaces', 'list'] },
    '/api/v1/namespaces/{namespace}/pods': {
      get: ['listCoreV1NamespacedPod', 'list'],
      post: ['createCoreV1NamespacedPod', 'post'],
      delete: ['deleteCoreV1CollectionNamespacedPod', 'deletecollection'],
    },
    '/api/v1/namespaces/{namespace}/pods/{name}': {
      get: ['readCoreV1NamespacedPod', 'get'],
      put: ['replaceCoreV1NamespacedPod', 'put'],
      patch: ['patchCoreV1NamespacedPod', 'patch'],
      delete: ['deleteCoreV1NamespacedPod', 'delete'],
    },
    '/api/v1/namespaces/{namespace}/pods/{name}/status': {
      get: ['readCoreV1NamespacedPodStatus', 'get'],
      put: ['replaceCoreV1NamespacedPodStatus', 'put'],
      patch: ['patchCoreV1NamespacedPodStatus', 'patch'],
    },
  });
});

test('PATCH lists the media types that it accepts', () => {
  const { get } = client(registryOf());
  const patchOf = (document: string, path: string) => {
    const paths = get(document)['paths'] as Json;
    return paths[path]?.['patch'] as {
      parameters: readonly { name: string }[];
      requestBody: { content: object };
      'x-kubernetes-group-version-kind': object;
    };
  };
  const pod = patchOf('/openapi/v3/api/v1', '/api/v1/namespaces/{namespace}/pods/{name}');
  const strategic = 'application/strategic-merge-patch+json';
  assert.deepEqual(pod['x-kubernetes-group-version-kind'], { group: '', version: 'v1', kind: 'Pod' });
  assert.deepEqual(
    pod.parameters.map(({ name }) => name),
    ['pretty', 'dryRun', 'fieldManager', 'fieldValidation', 'force'],
  );
  assert.ok(strategic in pod.requestBody.content);
  const widget = patchOf(
    `/openapi/v3/apis/${widgetGroup}/v1`,
    `/apis/${widgetGroup}/v1/namespaces/{namespace}/widgets/{name}`,
  );
  assert.ok(!(strategic in widget.requestBody.content));
  const scale = patchOf(
    '/openapi/v3/apis/apps/v1',
    '/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale',
  );
  assert.deepEqual(scale['x-kubernetes-group-version-kind'], {
    group: 'autoscaling',
    version: 'v1',
    kind: 'Scale',
  });
});

test('lists of built-in kinds declare how they merge', () => {
  const { schemas } = client(registryOf()).get('/openapi/v3/api/v1')['components'] as Json;
  const spec = schemas?.['io.k8s.api.core.v1.PodSpec']?.['properties'] as Json;
  assert.equal(spec['containers']?.['x-kubernetes-patch-merge-key'], 'name');
  assert.equal(spec['containers']?.['x-kubernetes-patch-strategy'], 'merge');
  assert.equal(spec['volumes']?.['x-kubernetes-patch-strategy'], 'merge,retainKeys');
  // The kinds' own parts are unchanged.
  const own = pods.openApi.definitions.get('io.k8s.api.core.v1.PodSpec')?.['properties'] as Json;
  assert.equal(own['containers']?.['x-kubernetes-patch-merge-key'], undefined);
});

test('schemas of kinds and lists are found by their kind', () => {
  const { schemas } = client(registryOf()).get(`/openapi/v3/apis/${widgetGroup}/v1`)['components'] as Json;
  const kinds = (name: string) => schemas?.[name]?.['x-kubernetes-group-version-kind'];
  assert.deepEqual(kinds('com.example.stable.v1.Widget'), [
    { group: widgetGroup, version: 'v1', kind: 'Widget' },
  ]);
  assert.deepEqual(kinds('com.example.stable.v1.WidgetList'), [
    { group: widgetGroup, version: 'v1', kind: 'WidgetList' },
  ]);
  const properties = schemas?.['com.example.stable.v1.Widget']?.['properties'] as Json;
  assert.deepEqual(Object.keys(properties), ['apiVersion', 'kind', 'metadata', 'spec', 'status']);
});

test('a change of one version of a group leaves the documents of all others', () => {
  const registry = registryOf();
  const { get, index, urlOf } = client(registry);
  const before = index();
  let walked = 0;
  const definitions = pods.openApi.definitions;
  const { get: lookUp } = definitions;
  Object.defineProperty(definitions, 'get', {
    configurable: true,
    value: (name: string) => {
      if (name === pods.openApi.name) walked++;
      return lookUp.call(definitions, name);
    },
  });
  try {
    const spec = { type: 'object', properties: { other: { type: 'string' } } };
    registry.add([widgetsOf('v1', { type: 'object', properties: { spec } })]);
    const after = index();
    assert.equal(after.get('api/v1'), before.get('api/v1'));
    assert.equal(after.get(`apis/${widgetGroup}/v1beta1`), undefined);
    assert.notEqual(after.get(`apis/${widgetGroup}/v1`), before.get(`apis/${widgetGroup}/v1`));
    get(urlOf('api/v1'));
    assert.equal(walked, 0, 'the built-in kinds were looked at again');
  } finally {
    Reflect.deleteProperty(definitions, 'get');
  }
});

test('documents are kept for good by their hash, and by their tag', () => {
  const { ask, urlOf } = client(registryOf());
  const url = urlOf('api/v1');
  const hashed = ask(url);
  assert.equal(hashed?.headers['cache-control'], 'public, immutable');
  assert.ok(Date.parse(hashed.headers['expires'] ?? '') > Date.now() + 360 * 24 * 3600 * 1000);
  const plain = ask('/openapi/v3/api/v1');
  assert.equal(plain?.code, 200);
  assert.equal(plain.headers['cache-control'], undefined);
  const tag = plain.headers['etag'] ?? '';
  assert.equal(tag, `"${new URL(url, 'http://localhost').searchParams.get('hash')}"`);
  assert.equal(ask('/openapi/v3/api/v1', { 'if-none-match': tag })?.code, 304);
  const old = ask('/openapi/v3/api/v1?hash=OLD');
  assert.equal(old?.code, 301);
  assert.equal(old.headers['location'], url);
  const list = ask('/openapi/v3');
  assert.equal(ask('/openapi/v3', { 'if-none-match': list?.headers['etag'] ?? '' })?.code, 304);
  const v2 = ask('/openapi/v2');
  assert.equal(ask('/openapi/v2', { 'if-none-match': v2?.headers['etag'] ?? '' })?.code, 304);
});

test('compressed for who takes it', () => {
  const { ask } = client(registryOf());
  const plain = ask('/openapi/v3/api/v1');
  for (const accept of ['gzip', 'deflate, gzip;q=1.0, *;q=0.5', '*']) {
    const answer = ask('/openapi/v3/api/v1', { 'accept-encoding': accept });
    assert.equal(answer?.headers['content-encoding'], 'gzip', accept);
    assert.deepEqual(gunzipSync(answer.body as Uint8Array), plain?.body);
  }
  for (const accept of ['', 'identity', 'gzip;q=0', 'br']) {
    const answer = ask('/openapi/v3/api/v1', { 'accept-encoding': accept });
    assert.equal(answer?.headers['content-encoding'], undefined, accept);
  }
});

test('forms', () => {
  const { ask } = client(registryOf());
  const type = (path: string, accept: string) => ask(path, { accept })?.headers['content-type'];
  const newer = 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf';
  assert.equal(type('/openapi/v2', protobuf), newer);
  assert.equal(type('/openapi/v2', newer), newer);
  assert.equal(type('/openapi/v2', 'application/json'), 'application/json');
  assert.equal(type('/openapi/v2', '*/*'), 'application/json');
  assert.equal(type('/openapi/v3/api/v1', '*/*'), 'application/json');
  for (const path of ['/openapi/v2', '/openapi/v3/api/v1']) {
    assert.throws(
      () => ask(path, { accept: 'application/com.github.proto-openapi.spec.v3.v1.0+protobuf' }),
      (error) => error instanceof ApiError && error.status.code === 406,
    );
  }
  for (const path of ['/openapi', '/openapi/v1', '/openapi/v3/api/v2', '/openapi/v3/apis/none/v1', '/api']) {
    assert.equal(ask(path), undefined, path);
  }
});

test('schemas in the words of version 2', () => {
  assert.deepEqual(
    schemaOf({
      type: 'object',
      description: 'd',
      required: ['a'],
      properties: {
        a: { allOf: [{ $ref: '#/components/schemas/x.Y' }], description: 'a' },
        b: { type: 'string', nullable: true },
        c: { 'x-kubernetes-int-or-string': true },
        d: {
          type: 'object',
          'x-kubernetes-preserve-unknown-fields': true,
          properties: { e: {} },
          required: ['e'],
        },
        f: { type: 'array', items: { oneOf: [{ type: 'integer' }, { type: 'string' }] } },
        g: {
          type: 'object',
          additionalProperties: { type: 'integer' },
          'x-kubernetes-validations': [{ rule: 'r' }],
        },
        h: { type: 'string', default: 'x', enum: ['x'], pattern: '^x$', minLength: 1 },
      },
    }),
    {
      type: 'object',
      description: 'd',
      required: ['a'],
      properties: {
        a: { $ref: '#/definitions/x.Y', description: 'a' },
        b: {},
        c: { 'x-kubernetes-int-or-string': true, type: 'string', format: 'int-or-string' },
        d: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
        f: { type: 'array', items: {} },
        g: { type: 'object', additionalProperties: { type: 'integer' } },
        h: { type: 'string', enum: ['x'], pattern: '^x$', minLength: 1 },
      },
    },
  );
});

test('a list has the name of its kind', () => {
  const registry = new Registry();
  registry.add([widgetsListedAs('WidgetCollection')]);
  const { schemas } = client(registry).get(`/openapi/v3/apis/${widgetGroup}/v1`)['components'] as Json;
  assert.ok(schemas !== undefined && 'com.example.stable.v1.WidgetCollection' in schemas);
});

/** Widgets, without the model that must not be asked for. */
function widgetsListedAs(listKind: string) {
  return resourceOf({
    group: widgetGroup,
    version: 'v1',
    plural: 'widgets',
    kind: 'Widget',
    listKind,
    isCustom: true,
    openApi: widgets.openApi,
  });
}
