import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { PlainAnswer } from '../http/plain.ts';
import { ApiError } from '../resources/api-error.ts';
import { Registry } from '../resources/registry.ts';
import { aggregatedVersion } from './aggregated.ts';
import { compareVersions } from '../resources/version-order.ts';
import { groupsOf } from './groups.ts';
import {
  deployments,
  objectOf,
  pods,
  registryOf,
  resourceOf,
  widgetGroup,
  widgets,
  widgetsOf,
} from './kinds.fixture.ts';
import { storageVersionHash } from './legacy.ts';
import { discoveryRoutes } from './routes.ts';

const allVerbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];

function client(registry: Registry) {
  const route = discoveryRoutes(registry);
  const ask = (path: string, headers: Record<string, string> = {}): PlainAnswer | undefined =>
    route({ method: 'GET', path, query: new URLSearchParams(), headers });
  const get = (path: string, headers: Record<string, string> = {}) => {
    const answer = ask(path, headers);
    assert.equal(answer?.code, 200, path);
    return objectOf(String(answer.body));
  };
  return { ask, get };
}

const aggregated = (one: string) => ({
  accept: `application/json;g=apidiscovery.k8s.io;v=${one};as=APIGroupDiscoveryList,application/json`,
});

test('the groups', () => {
  const { get } = client(registryOf());
  const apps = { groupVersion: 'apps/v1', version: 'v1' };
  const [stable, beta] = ['v1', 'v1beta1'].map((one) => ({
    groupVersion: `${widgetGroup}/${one}`,
    version: one,
  }));
  assert.deepEqual(get('/apis'), {
    kind: 'APIGroupList',
    apiVersion: 'v1',
    groups: [
      { name: 'apps', versions: [apps], preferredVersion: apps },
      { name: widgetGroup, versions: [stable, beta], preferredVersion: stable },
    ],
  });
  assert.deepEqual(get('/apis/apps'), {
    kind: 'APIGroup',
    apiVersion: 'v1',
    name: 'apps',
    versions: [apps],
    preferredVersion: apps,
  });
  assert.deepEqual(get('/api', { host: '127.0.0.1:6443' }), {
    kind: 'APIVersions',
    versions: ['v1'],
    serverAddressByClientCIDRs: [{ clientCIDR: '0.0.0.0/0', serverAddress: '127.0.0.1:6443' }],
  });
});

test('the kinds of a version', () => {
  const { get } = client(registryOf());
  const subresource = { singularName: '', namespaced: true, verbs: ['get', 'patch', 'update'] };
  assert.deepEqual(get('/apis/apps/v1'), {
    kind: 'APIResourceList',
    apiVersion: 'v1',
    groupVersion: 'apps/v1',
    resources: [
      {
        name: 'deployments',
        singularName: 'deployment',
        namespaced: true,
        kind: 'Deployment',
        verbs: allVerbs,
        shortNames: ['deploy'],
        categories: ['all'],
        // From a Kubernetes 1.34: kubernetes api/discovery/apis__apps__v1.json.
        storageVersionHash: '8aSe+NMegvE=',
      },
      { ...subresource, name: 'deployments/scale', group: 'autoscaling', version: 'v1', kind: 'Scale' },
      { ...subresource, name: 'deployments/status', kind: 'Deployment' },
    ],
  });
  const names = (get('/api/v1')['resources'] as readonly { name: string }[]).map(({ name }) => name);
  assert.deepEqual(names, ['configmaps', 'events', 'pods', 'pods/status']);
  const [widget] = get(`/apis/${widgetGroup}/v1beta1`)['resources'] as readonly Record<string, unknown>[];
  assert.equal(widget?.['storageVersionHash'], storageVersionHash(widgets));
});

test('aggregated discovery, in both versions', () => {
  const { ask, get } = client(registryOf());
  for (const one of ['v2', 'v2beta1']) {
    const answer = ask('/apis', aggregated(one));
    assert.equal(
      answer?.headers['content-type'],
      `application/json;g=apidiscovery.k8s.io;v=${one};as=APIGroupDiscoveryList`,
    );
    const list = get('/apis', aggregated(one));
    assert.equal(list['apiVersion'], `apidiscovery.k8s.io/${one}`);
    const items = list['items'] as readonly { metadata: object; versions: readonly object[] }[];
    assert.deepEqual(
      items.map(({ metadata }) => metadata),
      [{ name: 'apps' }, { name: widgetGroup }],
    );
    const kind = { group: widgetGroup, version: 'v1', kind: 'Widget' };
    assert.deepEqual(items[1]?.versions[0], {
      version: 'v1',
      freshness: 'Current',
      resources: [
        {
          resource: 'widgets',
          responseKind: kind,
          scope: 'Namespaced',
          singularResource: 'widget',
          verbs: allVerbs,
          shortNames: ['wd'],
          categories: ['all', 'things'],
          subresources: [{ subresource: 'status', responseKind: kind, verbs: ['get', 'patch', 'update'] }],
        },
      ],
    });
  }
  const core = get('/api', aggregated('v2'));
  assert.deepEqual(
    (core['items'] as readonly { metadata: object; versions: readonly { version: string }[] }[]).map(
      ({ metadata, versions }) => [metadata, versions.map((one) => one.version)],
    ),
    [[{}, ['v1']]],
  );
});

test('which discovery an Accept header means', () => {
  assert.equal(aggregatedVersion(undefined), undefined);
  assert.equal(aggregatedVersion('application/json'), undefined);
  assert.equal(aggregatedVersion(`application/json,${aggregated('v2').accept}`), undefined);
  assert.equal(aggregatedVersion(aggregated('v3').accept), undefined);
  assert.equal(aggregatedVersion(`${aggregated('v2beta1').accept},${aggregated('v2').accept}`), 'v2beta1');
  assert.equal(
    aggregatedVersion(
      'application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList',
    ),
    undefined,
  );
});

test('who has the document does not get it again, until the kinds change', () => {
  const registry = registryOf();
  const { ask } = client(registry);
  const tag = (): string => ask('/apis', aggregated('v2'))?.headers['etag'] ?? assert.fail('no tag');
  const first = tag();
  const again = ask('/apis', { ...aggregated('v2'), 'if-none-match': `"x", W/${first}` });
  assert.equal(again?.code, 304);
  assert.equal(again.body, '');
  assert.equal(again.headers['etag'], first);
  assert.equal(again.headers['content-type'], undefined);
  registry.add([widgetsOf('v1'), widgetsOf('v2')]);
  assert.notEqual(tag(), first);
  assert.equal(ask('/apis', { ...aggregated('v2'), 'if-none-match': first })?.code, 200);
  assert.equal(ask(`/apis/${widgetGroup}/v1beta1`), undefined);
  assert.equal(ask(`/apis/${widgetGroup}/v2`)?.code, 200);
  registry.remove(widgets.storeName);
  assert.equal(ask(`/apis/${widgetGroup}`), undefined);
});

test('a tag is the same for the same kinds', () => {
  const tag = () => client(registryOf()).ask('/api', aggregated('v2'))?.headers['etag'];
  assert.equal(tag(), tag());
});

test('paths', () => {
  const { ask, get } = client(registryOf());
  const paths = get('/')['paths'] as readonly string[];
  for (const path of paths) {
    if (/^\/(?:healthz|livez|metrics|openapi|readyz|version)/.test(path)) continue;
    assert.equal(ask(path)?.code, 200, path);
    assert.equal(ask(`${path}/`)?.code, path.endsWith('/') ? undefined : 200, path);
  }
  assert.ok(paths.includes('/apis/apps/v1'));
  for (const path of [
    '/apis/none',
    '/apis/apps/v2',
    '/api/v2',
    '/api/v1/pods',
    '/apis/apps/v1/deployments',
    '/other',
    '/version',
    '',
  ]) {
    assert.equal(ask(path), undefined, path);
  }
});

test('forms', () => {
  const { ask } = client(registryOf());
  const yaml = ask('/apis/apps', { accept: 'application/yaml' });
  assert.equal(yaml?.headers['content-type'], 'application/yaml');
  assert.match(String(yaml.body), /^kind: APIGroup\n/);
  assert.equal(ask('/apis', { accept: 'application/json, */*' })?.headers['vary'], 'Accept');
  assert.throws(
    () => ask('/apis', { accept: 'application/vnd.kubernetes.protobuf' }),
    (error) => error instanceof ApiError && error.status.code === 406,
  );
});

test('nothing is served', () => {
  const { get } = client(new Registry());
  assert.deepEqual(get('/apis')['groups'], []);
  assert.deepEqual(get('/api')['versions'], []);
});

test('the order of versions', () => {
  const versions = [
    'foo10',
    'v1alpha1',
    'v10',
    'v1',
    'v2beta1',
    'v2',
    'foo1',
    'v11beta2',
    'v3alpha2',
    'v12alpha1',
  ];
  // The order that the documentation of CustomResourceDefinitions gives as an example.
  assert.deepEqual(versions.sort(compareVersions), [
    'v10',
    'v2',
    'v1',
    'v11beta2',
    'v2beta1',
    'v12alpha1',
    'v3alpha2',
    'v1alpha1',
    'foo1',
    'foo10',
  ]);
});

test('the order of groups', () => {
  const registry = new Registry();
  const names = ['zoo.example.com', 'rbac.authorization.k8s.io', 'alpha.example.com', 'batch', '', 'apps'];
  for (const group of names) {
    registry.add([
      resourceOf({ group, version: 'v1', plural: 'things', kind: 'Thing', openApi: pods.openApi }),
    ]);
  }
  assert.deepEqual(
    groupsOf(registry).map(({ name }) => name),
    ['', 'apps', 'batch', 'rbac.authorization.k8s.io', 'alpha.example.com', 'zoo.example.com'],
  );
});

test('hashes of storage versions', () => {
  // kubernetes api/discovery/apis__apps__v1.json.
  const hash = (kind: string) => storageVersionHash({ ...kinds, kind });
  const kinds = { group: deployments.group, storedApiVersion: deployments.storedApiVersion };
  assert.equal(hash('DaemonSet'), 'dd7pWHUlMKQ=');
  assert.equal(hash('StatefulSet'), 'H+vl74LkKdo=');
});
