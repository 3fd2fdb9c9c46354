import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { type Answer, json, pair, serve } from './api-server.fixture.ts';
import { KubeClient } from './client.ts';
import { apiGroups, apiResources } from './discovery.ts';
import { leases, nodes } from '../object/object.ts';

const lease = { namespace: 'kube-system', name: 'rampart' };
const leasePath = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases';

const echo: Answer = ({ method, url, headers, body }, response) =>
  json(response, 200, { method, url, type: headers['content-type'], body: body && JSON.parse(body) });

suite('client: what each call sends', () => {
  const object = { metadata: { ...lease, resourceVersion: '5', managedFields: [] }, spec: {} };
  const typed = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', ...object };
  const { managedFields: _none, ...appliedMetadata } = object.metadata;
  const deletion = { apiVersion: 'v1', kind: 'DeleteOptions' };
  const merge = { type: 'merge', body: { a: null } } as const;
  const cases: readonly (readonly [string, (client: KubeClient) => Promise<unknown>, object])[] = [
    ['get', (c) => c.get(leases, lease), { method: 'GET', url: `${leasePath}/rampart` }],
    [
      'get a subresource',
      (c) => c.get(nodes, { name: 'n', subresource: 'status' }),
      { method: 'GET', url: '/api/v1/nodes/n/status' },
    ],
    [
      'list',
      (c) =>
        c.list(
          leases,
          { namespace: 'a' },
          { limit: 2, continue: 'x y', labelSelector: 'a in (b, c)', fieldSelector: 'd=e' },
        ),
      {
        method: 'GET',
        url: '/apis/coordination.k8s.io/v1/namespaces/a/leases?limit=2&continue=x+y&labelSelector=a+in+%28b%2C+c%29&fieldSelector=d%3De',
      },
    ],
    [
      'list all namespaces',
      (c) => c.list(leases),
      { method: 'GET', url: '/apis/coordination.k8s.io/v1/leases' },
    ],
    [
      'create',
      (c) => c.create(leases, object, { fieldManager: 'me', dryRun: true, fieldValidation: 'Strict' }),
      {
        method: 'POST',
        url: `${leasePath}?fieldManager=me&dryRun=All&fieldValidation=Strict`,
        type: 'application/json',
        body: typed,
      },
    ],
    [
      'update',
      (c) => c.update(leases, object),
      { method: 'PUT', url: `${leasePath}/rampart`, type: 'application/json', body: typed },
    ],
    [
      'update status',
      (c) => c.update(leases, object, { subresource: 'status' }),
      { method: 'PUT', url: `${leasePath}/rampart/status`, type: 'application/json', body: typed },
    ],
    ...(['json', 'merge', 'strategic'] as const).map(
      (type) =>
        [
          `${type} patch`,
          (c: KubeClient) => c.patch(leases, lease, { ...merge, type }, { fieldManager: 'me' }),
          {
            method: 'PATCH',
            url: `${leasePath}/rampart?fieldManager=me`,
            type: `application/${{ json: 'json', merge: 'merge', strategic: 'strategic-merge' }[type]}-patch+json`,
            body: { a: null },
          },
        ] as const,
    ),
    [
      'apply',
      (c) => c.apply(leases, object, { fieldManager: 'me', force: true, subresource: 'status' }),
      {
        method: 'PATCH',
        url: `${leasePath}/rampart/status?fieldManager=me&force=true`,
        type: 'application/apply-patch+yaml',
        body: { ...typed, metadata: appliedMetadata },
      },
    ],
    [
      'delete',
      (c) =>
        c.delete(leases, lease, {
          preconditions: { uid: 'u' },
          gracePeriodSeconds: 0,
        }),
      {
        method: 'DELETE',
        url: `${leasePath}/rampart`,
        type: 'application/json',
        body: {
          ...deletion,
          preconditions: { uid: 'u' },
          gracePeriodSeconds: 0,
        },
      },
    ],
    [
      'deleteCollection',
      (c) => c.deleteCollection(leases, { namespace: 'kube-system' }, { dryRun: true }),
      {
        method: 'DELETE',
        url: leasePath,
        type: 'application/json',
        body: { ...deletion, dryRun: ['All'] },
      },
    ],
    ['getPath', (c) => c.getPath('/openapi/v3'), { method: 'GET', url: '/openapi/v3' }],
  ];
  for (const [name, call, expected] of cases) {
    test(name, async () => {
      await using both = await pair(echo);
      assert.deepEqual(await call(both.client), {
        body: '',
        ...JSON.parse(JSON.stringify(expected)),
      });
    });
  }

  test('a write returns only the metadata if that is requested', async () => {
    await using both = await pair(echo);
    await both.client.create(leases, object, { metadataOnly: true });
    const { accept } = both.server.received[0]?.headers ?? {};
    assert.equal(accept, 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json');
  });

  test('headers, and a server behind a path', async () => {
    await using server = await serve(echo);
    const access = {
      ...server.access,
      server: new URL(`${server.url}/clusters/a/`),
      headers: { 'impersonate-user': 'bob', 'impersonate-group': ['x', 'y'] },
    };
    using client = new KubeClient(access, { userAgent: 'rampart-agent/1' });
    await client.get(nodes, { name: 'n' });
    const { url, headers } = server.received[0] ?? {};
    assert.equal(url, '/clusters/a/api/v1/nodes/n');
    assert.deepEqual(
      [
        headers?.['user-agent'],
        headers?.accept,
        headers?.['impersonate-user'],
        headers?.['impersonate-group'],
      ],
      ['rampart-agent/1', 'application/json', 'bob', 'x, y'],
    );
  });

  test('discovery', async () => {
    const answers: Record<string, unknown> = {
      '/apis': { groups: [{ name: 'apps' }] },
      '/apis/apps/v1': { resources: [{ name: 'deployments' }] },
      '/api/v1': { resources: [{ name: 'pods' }] },
    };
    await using both = await pair(({ url }, response) => json(response, 200, answers[url]));
    assert.equal((await apiGroups(both.client))[0]?.name, 'apps');
    assert.equal((await apiResources(both.client, { group: 'apps', version: 'v1' }))[0]?.name, 'deployments');
    assert.equal((await apiResources(both.client, { group: '', version: 'v1' }))[0]?.name, 'pods');
  });

  test('connections are kept and used again', async () => {
    await using both = await pair(echo);
    for (let i = 0; i < 5; i++) await both.client.get(nodes, { name: `${i}` });
    assert.deepEqual([both.server.connections(), both.server.received.length], [1, 5]);
  });
});
