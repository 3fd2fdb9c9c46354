import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { AccessRule } from '../verbs/request.ts';
import { call, inA, json } from './call.fixture.ts';
import { serveThings } from './server.fixture.ts';

const rules: readonly AccessRule[] = [
  { apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch'], namespace: 'a' },
  { apiGroups: [''], resources: ['pods/status'], verbs: ['get'] },
  { apiGroups: ['example.com'], resources: ['*'], verbs: ['get'] },
  { apiGroups: [''], resources: ['namespaces'], verbs: ['get', 'list'], resourceNames: ['a'] },
];

suite('users other than the administrator', () => {
  test('does what a rule allows, and nothing else', async () => {
    const user = { name: 'looker', groups: [], rules };
    let calls = 0;
    await using server = await serveThings(
      () => {
        calls++;
        return { kind: 'status', code: 200, body: {} };
      },
      { authenticate: () => user },
    );
    const allowed = [
      inA,
      `${inA}?watch=1`,
      '/api/v1/namespaces/b/pods/x/status',
      '/apis/example.com/v1/namespaces/b/widgets/x',
      '/api/v1/namespaces/a',
      '/api/v1/namespaces?fieldSelector=metadata.name%3Da',
    ];
    for (const path of allowed) assert.equal((await call(server, path)).code, 200, path);
    assert.equal(calls, allowed.length);
    const refused: readonly (readonly [method: string, path: string])[] = [
      ['GET', '/api/v1/pods'],
      ['GET', '/api/v1/namespaces/b/pods'],
      ['GET', `${inA}/x`],
      ['GET', '/apis/example.com/v1/namespaces/b/widgets'],
      ['GET', '/api/v1/namespaces'],
      ['GET', '/api/v1/namespaces/b'],
      ['GET', '/api/v1/namespaces?fieldSelector=metadata.name%3Da,metadata.name%3Db'],
      ['POST', inA],
      ['DELETE', inA],
      ['PUT', `${inA}/x`],
      ['PATCH', `${inA}/x`],
      ['DELETE', `${inA}/x`],
      ['PUT', '/api/v1/namespaces/b/pods/x/status'],
    ];
    for (const [method, path] of refused) {
      const options = method === 'GET' ? {} : { method, headers: json, body: '{}' };
      assert.equal((await call(server, path, options)).code, 403, `${method} ${path}`);
    }
    const { json: status } = await call(server, inA, { method: 'POST', headers: json, body: '{}' });
    assert.equal(
      status['message'],
      'pods is forbidden: User "looker" cannot create resource "pods" in API group "" in the namespace "a"',
    );
    assert.equal(calls, allowed.length);
  });

  test('a part beside the API has its path and what is below it, without the authentication of the API', async () => {
    const taken: string[] = [];
    await using server = await serveThings(undefined, {
      mounted: {
        path: '/ui',
        take: (request, response, known) => {
          taken.push(`${request.method} ${request.url}`);
          known();
          response.end('of the part');
        },
      },
    });
    const nobody = { headers: { authorization: '' } };
    for (const path of ['/ui', '/ui/', '/ui/a?b', '/ui?c'])
      assert.equal(String((await call(server, path, nobody)).body), 'of the part');
    assert.equal(String((await call(server, '/ui/', { ...nobody, method: 'POST' })).body), 'of the part');
    for (const path of ['/uix', '/api/ui', '/', '//ui/', '/UI/'])
      assert.equal((await call(server, path, nobody)).code, 401, path);
    assert.deepEqual(taken, ['GET /ui', 'GET /ui/', 'GET /ui/a?b', 'GET /ui?c', 'POST /ui/']);
  });
});
