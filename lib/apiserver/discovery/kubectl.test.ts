/** How kubectl uses discovery, OpenAPI and Tables. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';

import {
  AppsV1Api,
  ApisApi,
  CoreApi,
  KubeConfig,
  KubernetesObjectApi,
  VersionApi,
} from '@kubernetes/client-node';

import { deepTest } from '../../testing/depth.fixture.ts';
import type { PlainRequest, PlainRoute } from '../http/plain.ts';
import { openApiRoutes } from '../openapi/routes.ts';
import { negotiate } from '../render/format.ts';
import { renderItem, renderList } from '../render/render.ts';
import { Item } from '../resources/item.ts';
import type { Registry } from '../resources/registry.ts';
import type { Resource } from '../resources/resource.ts';
import type { JsonObject } from '../../json/json.ts';
import { pods, registryOf, widgets, widgetsOf } from './kinds.fixture.ts';
import { noKubectl, type Served, serve } from './kubectl.fixture.ts';
import { discoveryRoutes } from './routes.ts';

/** Kubectl's own version: it warns of a distant one. */
const version: PlainRoute = ({ path }) => {
  if (path !== '/version') return undefined;
  const body = JSON.stringify({ major: '1', minor: '32', gitVersion: 'v1.32.4', platform: 'linux/amd64' });
  return { code: 200, headers: { 'content-type': 'application/json' }, body };
};

const widgetOf = (name: string, size: number): JsonObject => ({
  apiVersion: 'stable.example.com/v1',
  kind: 'Widget',
  metadata: { name, namespace: 'default', uid: name, resourceVersion: '3' },
  spec: { size, color: 'red' },
  status: { phase: 'Ready' },
});

/** Fixed answers to reads of one kind; writes are answered with the object. */
function objects(resource: Resource, path: string, shown: readonly JsonObject[]): PlainRoute {
  const items = shown.map((object) => Item.ofObject(resource, object));
  const list = { resource, items, version: 5n, continue: undefined, remaining: undefined };
  return ({ path: asked, headers, query }: PlainRequest) => {
    const isList = asked === path;
    const [item] = items;
    if (!isList && (item === undefined || !asked.startsWith(`${path}/`))) return undefined;
    const format = negotiate(String(headers['accept'] ?? ''), isList ? 'list' : 'item', query);
    if (format === undefined) return undefined;
    const body =
      isList || item === undefined
        ? [...renderList(list, format, new Date())].join('')
        : renderItem(item, format, new Date());
    return { code: 200, headers: { 'content-type': format.contentType }, body };
  };
}

const widgetPath = '/apis/stable.example.com/v1/namespaces/default/widgets';

async function serveKinds(registry: Registry, more: readonly PlainRoute[] = []): Promise<Served> {
  return serve([...more, discoveryRoutes(registry), version, openApiRoutes(registry)]);
}

/** The columns of each line. */
const cells = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => line.split(/\s{2,}/));

async function manifest(served: Served, object: JsonObject): Promise<string> {
  const path = join(dirname(served.kubeconfig), 'manifest.json');
  await writeFile(path, JSON.stringify(object));
  return path;
}

describe('kubectl', { skip: noKubectl }, () => {
  test('api-resources and api-versions', async () => {
    const registry = registryOf();
    await using served = await serveKinds(registry);
    const { stdout } = await served.kubectl('api-resources', '-o', 'wide', '--no-headers');
    const verbs = 'create,delete,deletecollection,get,list,patch,update,watch';
    assert.deepEqual(
      cells(stdout).map((line) => line.filter((cell) => cell !== '')),
      [
        ['configmaps', 'cm', 'v1', 'true', 'ConfigMap', verbs],
        ['events', 'v1', 'true', 'Event', verbs],
        ['pods', 'po', 'v1', 'true', 'Pod', verbs, 'all'],
        ['deployments', 'deploy', 'apps/v1', 'true', 'Deployment', verbs, 'all'],
        ['widgets', 'wd', 'stable.example.com/v1', 'true', 'Widget', verbs, 'all,things'],
      ],
    );
    const versions = await served.kubectl('api-versions');
    assert.deepEqual(versions.stdout.trim().split('\n'), [
      'apps/v1',
      'stable.example.com/v1',
      'stable.example.com/v1beta1',
      'v1',
    ]);
    // It took all from two documents.
    assert.deepEqual(
      new Set(
        served.requests.map((line) => line.split(/[ ?]/)[1]).filter((path) => path?.startsWith('/api')),
      ),
      new Set(['/api', '/apis']),
    );
  });

  deepTest('api-resources from a server without aggregated discovery', async () => {
    const route = discoveryRoutes(registryOf());
    const old: PlainRoute = (request) =>
      route({ ...request, headers: { ...request.headers, accept: 'application/json' } });
    await using served = await serve([old]);
    const { stdout } = await served.kubectl('api-resources', '--no-headers', '-o', 'name');
    assert.deepEqual(stdout.trim().split('\n').sort(), [
      'configmaps',
      'deployments.apps',
      'events',
      'pods',
      'widgets.stable.example.com',
    ]);
    assert.ok(served.requests.some((line) => line.startsWith('GET /apis/stable.example.com/v1?')));
  });

  test('version', async () => {
    await using served = await serveKinds(registryOf());
    const { stdout, stderr } = await served.kubectl('version');
    assert.match(stdout, /^Server Version: v1\.32\.4$/m);
    assert.equal(stderr, '');
  });

  test('get shows the columns of the server', async () => {
    const route = objects(widgets, widgetPath, [widgetOf('a', 1), widgetOf('b', 22)]);
    await using served = await serveKinds(registryOf(), [route]);
    assert.deepEqual(cells((await served.kubectl('get', 'widgets')).stdout), [
      ['NAME', 'SIZE', 'PHASE'],
      ['a', '1', 'Ready'],
      ['b', '22', 'Ready'],
    ]);
    assert.deepEqual(cells((await served.kubectl('get', 'wd', '-o', 'wide')).stdout)[0], [
      'NAME',
      'SIZE',
      'COLOR',
      'PHASE',
    ]);
    assert.deepEqual(cells((await served.kubectl('get', 'widget', 'a')).stdout)[1], ['a', '1', 'Ready']);
    const json = JSON.parse((await served.kubectl('get', 'widgets', '-o', 'json')).stdout) as {
      items: readonly JsonObject[];
    };
    assert.deepEqual(json.items, [widgetOf('a', 1), widgetOf('b', 22)]);
    assert.equal(
      (await served.kubectl('get', 'things', '-o', 'name')).stdout,
      'widget.stable.example.com/a\nwidget.stable.example.com/b\n',
    );
  });

  test('explain', async () => {
    await using served = await serveKinds(registryOf());
    const spec = (await served.kubectl('explain', 'widgets.spec', '--recursive')).stdout;
    assert.match(spec, /GROUP: +stable\.example\.com\nKIND: +Widget\nVERSION: +v1\n/);
    assert.match(spec, /What the widget should be\./);
    assert.match(spec, /size\t<integer> -required-/);
    assert.match(spec, /color\t<string>\n +enum: red, green/);
    assert.match(spec, /parts\t<\[\]Object>\n +name\t<string>/);
    const containers = (await served.kubectl('explain', 'pod.spec.containers')).stdout;
    assert.match(containers, /FIELD: containers <\[\]Container>/);
    assert.match(containers, /Where its files come from\./);
    assert.match((await served.kubectl('explain', 'widget')).stdout, /metadata\t<ObjectMeta>/);
  });

  test('explain from OpenAPI 2, in protocol buffers', async () => {
    await using served = await serveKinds(registryOf());
    const old = ['--output', 'plaintext-openapiv2'];
    const spec = (await served.kubectl('explain', 'widgets.spec', ...old)).stdout;
    assert.match(spec, /What the widget should be\./);
    assert.match(spec, /size\t<integer> -required-/);
    assert.match(spec, /parts\t<\[\]Object>/);
    const containers = (await served.kubectl('explain', 'pod.spec.containers', '--recursive', ...old)).stdout;
    assert.match(containers, /image\t<string>/);
    assert.ok(served.requests.some((line) => line.startsWith('GET /openapi/v2?')));
    assert.ok(!served.requests.some((line) => line.startsWith('GET /openapi/v3')));
  });

  test('leaves validation to the server, which OpenAPI 3 says it can', async () => {
    await using served = await serveKinds(registryOf(), [objects(widgets, widgetPath, [widgetOf('a', 1)])]);
    const path = await manifest(served, { ...widgetOf('a', 1), spec: { none: 1 } });
    const created = await served.kubectl('create', '-f', path, '--dry-run=server', '--validate=strict');
    assert.equal(created.stderr, '');
    const post = served.requests.find((line) => line.startsWith('POST'));
    assert.match(post ?? '', /dryRun=All&.*fieldValidation=Strict/);
    assert.ok(!served.requests.some((line) => line.startsWith('GET /openapi/v2')));
  });

  deepTest('finds the same in OpenAPI 2', async () => {
    const none: PlainRoute = ({ path }) =>
      path.startsWith('/openapi/v3') ? { code: 404, headers: {}, body: '' } : undefined;
    await using served = await serveKinds(registryOf(), [
      none,
      objects(pods, '/api/v1/namespaces/default/pods', []),
    ]);
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'a' },
      spec: { containers: [{ nme: 'c' }] },
    };
    const path = await manifest(served, pod);
    const { stderr } = await served.kubectl('create', '-f', path, '--dry-run=server', '--validate=strict');
    assert.equal(stderr, '');
    assert.ok(served.requests.some((line) => line.startsWith('GET /openapi/v2')));
    assert.match(served.requests.find((line) => line.startsWith('POST')) ?? '', /fieldValidation=Strict/);
  });

  test('apply knows how lists of built-in kinds merge', async () => {
    const container = (name: string) => ({ name, image: 'x' });
    const pod = (names: readonly string[]) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'a', namespace: 'default', annotations: {} },
      spec: { containers: names.map(container) },
    });
    const last = JSON.stringify(pod(['c', 'd']));
    const live = {
      ...pod(['c', 'd']),
      metadata: {
        ...pod([]).metadata,
        annotations: { 'kubectl.kubernetes.io/last-applied-configuration': last },
      },
    };
    await using served = await serveKinds(registryOf(), [
      objects(pods, '/api/v1/namespaces/default/pods', [live]),
    ]);
    const applied = await served.kubectl('apply', '-f', await manifest(served, pod(['c'])));
    assert.equal(applied.stderr, '');
    const [patch = ''] = served.patches;
    assert.deepEqual((JSON.parse(patch) as { spec: unknown }).spec, {
      '$setElementOrder/containers': [{ name: 'c' }],
      containers: [{ $patch: 'delete', name: 'd' }],
    });
    assert.ok(served.requests.some((line) => line.startsWith('GET /openapi/v3/api/v1?hash=')));
  });

  test('apply of custom resources', async () => {
    await using served = await serveKinds(registryOf(), [objects(widgets, widgetPath, [widgetOf('a', 1)])]);
    const applied = await served.kubectl('apply', '-f', await manifest(served, widgetOf('a', 2)));
    assert.match(applied.stdout, /widget\.stable\.example\.com\/a configured/);
    const [patch = ''] = served.patches;
    assert.deepEqual((JSON.parse(patch) as { spec: unknown }).spec, { size: 2 });
  });

  test('sees a schema that has changed', async () => {
    const registry = registryOf();
    await using served = await serveKinds(registry);
    assert.doesNotMatch((await served.kubectl('explain', 'widgets.spec')).stdout, /weight/);
    const spec = { type: 'object', properties: { weight: { type: 'number', description: 'In grams.' } } };
    registry.add([widgetsOf('v1', { type: 'object', properties: { spec } })]);
    assert.match((await served.kubectl('explain', 'widgets.spec')).stdout, /In grams\./);
  });
});

test('the client of client-node reads discovery', async () => {
  const route = objects(widgets, widgetPath, [widgetOf('a', 1)]);
  await using served = await serveKinds(registryOf(), [route]);
  const config = new KubeConfig();
  config.loadFromFile(served.kubeconfig);
  const groups = await config.makeApiClient(ApisApi).getAPIVersions();
  assert.deepEqual(
    groups.groups.map(({ name, preferredVersion }) => [name, preferredVersion?.version]),
    [
      ['apps', 'v1'],
      ['stable.example.com', 'v1'],
    ],
  );
  const core = await config.makeApiClient(CoreApi).getAPIVersions();
  assert.deepEqual(core.versions, ['v1']);
  assert.equal(core.serverAddressByClientCIDRs[0]?.serverAddress, new URL(served.url).host);
  const { resources } = await config.makeApiClient(AppsV1Api).getAPIResources();
  assert.deepEqual(
    resources.map(({ name, kind, group }) => [name, kind, group]),
    [
      ['deployments', 'Deployment', undefined],
      ['deployments/scale', 'Scale', 'autoscaling'],
      ['deployments/status', 'Deployment', undefined],
    ],
  );
  assert.equal((await config.makeApiClient(VersionApi).getCode()).gitVersion, 'v1.32.4');
  const metadata = { name: 'a', namespace: 'default' };
  const read = await KubernetesObjectApi.makeApiClient(config).read({
    apiVersion: 'stable.example.com/v1',
    kind: 'Widget',
    metadata,
  });
  assert.equal(read.metadata?.uid, 'a');
});
