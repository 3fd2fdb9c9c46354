import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { ApiError } from '../resources/api-error.ts';
import { readPath, splitTarget } from './request-path.ts';
import { routeRequest } from './route.ts';
import { registryOfThings } from './server.fixture.ts';

/** group/version plural namespace name subresource [watch] */
function shown(path: string): string {
  const read = readPath(path);
  if (read.kind === 'plain') return `plain ${read.path}`;
  const { group, version, plural, namespace, name, subresource, isWatchPath } = read;
  return [`${group}/${version}`, plural, namespace, name, subresource, isWatchPath ? 'watch' : '']
    .join(' ')
    .trimEnd();
}

test('paths are read as k8s.io/apiserver reads them', () => {
  // Taken from the table in requestinfo_test.go, as facts.
  const cases: readonly (readonly [string, string])[] = [
    ['/api/v1/namespaces', '/v1 namespaces'],
    ['/api/v1/namespaces/other', '/v1 namespaces  other'],
    ['/api/v1/namespaces/other/pods', '/v1 pods other'],
    ['/api/v1/namespaces/other/pods/foo', '/v1 pods other foo'],
    ['/api/v1/namespaces/other/pods/foo/status', '/v1 pods other foo status'],
    ['/api/v1/namespaces/other/status', '/v1 namespaces  other status'],
    ['/api/v1/namespaces/other/finalize', '/v1 namespaces  other finalize'],
    ['/api/v1/namespaces/status/pods', '/v1 pods status'],
    ['/api/v1/pods', '/v1 pods'],
    ['/api/v1/pods/', '/v1 pods'],
    ['/api/v1/nodes/n1/status', '/v1 nodes  n1 status'],
    ['/apis/apps/v1/namespaces/other/deployments/d', 'apps/v1 deployments other d'],
    ['/apis/example.com/v1/things/a', 'example.com/v1 things  a'],
    ['/api/v1/watch/pods', '/v1 pods    watch'],
    ['/api/v1/watch/namespaces/other/pods/a', '/v1 pods other a  watch'],
    ['/api/v1/namespaces/other/pods/a%3ab%20c', '/v1 pods other a:b c'],
    // Decoded before it is split.
    ['/api/v1/namespaces/other/pods/a%2fstatus', '/v1 pods other a status'],
    ['/api/v1/namespaces/other/pods/%C3%A9', '/v1 pods other é'],
    ['/', 'plain /'],
    ['/api', 'plain /api'],
    ['/api/v1', 'plain /api/v1'],
    ['/api/v1/', 'plain /api/v1/'],
    ['/apis', 'plain /apis'],
    ['/apis/apps', 'plain /apis/apps'],
    ['/apis/apps/v1', 'plain /apis/apps/v1'],
    ['/openapi/v3/apis/apps/v1', 'plain /openapi/v3/apis/apps/v1'],
    ['/version', 'plain /version'],
  ];
  for (const [path, expected] of cases) assert.equal(shown(path), expected, path);
});

test('hostile paths are refused', () => {
  const cases: readonly (readonly [string, number])[] = [
    ['/api/v1/namespaces/../pods', 404],
    ['/api/v1/namespaces/%2e%2e/pods', 404],
    ['/api/v1/./pods', 404],
    ['/api/v1//pods', 404],
    ['/api/v1/namespaces//pods', 404],
    ['/api/v1/pods/%00', 404],
    ['/api/v1/pods/a%0d%0ab', 404],
    [`/api/v1/namespaces/default/pods/${'a'.repeat(600)}`, 404],
    ['/api/v1/namespaces/a/pods/b/status/c', 404],
    ['/api/v1/watch', 404],
    ['/api/v1/pods/%', 400],
    ['/api/v1/pods/%zz', 400],
    ['/api/v1/pods/%ff', 400],
    ['/api/v1/pods/%c0%ae', 400],
    ['api/v1/pods', 400],
    ['*', 400],
  ];
  for (const [path, code] of cases) {
    assert.throws(
      () => readPath(path),
      (error) => error instanceof ApiError && error.status.code === code,
      path,
    );
  }
});

test('any path is read or refused with a Status', () => {
  const pieces = [
    '/',
    'api',
    'apis',
    'v1',
    'pods',
    'namespaces',
    'watch',
    'status',
    '%2f',
    '%',
    '%00',
    '..',
    'é',
    '?',
    '#',
  ];
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 14 }), (parts) => {
      try {
        const read = readPath(parts.join(''));
        if (read.kind === 'resource') assert.notEqual(read.plural, '');
      } catch (error) {
        assert.ok(error instanceof ApiError);
      }
    }),
    { numRuns: 2000 },
  );
});

test('a target is a path and a query, or a URL', () => {
  assert.deepEqual(splitTarget('/a?b?c'), { path: '/a', query: 'b?c' });
  assert.deepEqual(splitTarget('http://host:1/a?b'), { path: '/a', query: 'b' });
  assert.deepEqual(splitTarget('HTTPS://host'), { path: '/', query: '' });
  assert.deepEqual(splitTarget('http://host?b'), { path: '/', query: 'b' });
  assert.deepEqual(splitTarget('*'), { path: '*', query: '' });
});

function routed(method: string, target: string): string {
  const { path, query } = splitTarget(target);
  const parsed = new URLSearchParams(query);
  const read = readPath(path);
  assert.ok(read.kind === 'resource');
  try {
    const { verb, resource, subresource, namespace, name } = routeRequest(
      registryOfThings(),
      read,
      method,
      parsed,
    );
    return `${verb} ${resource.plural}/${subresource?.name ?? ''} ${namespace}/${name} ${parsed.get('fieldSelector') ?? ''}`.trimEnd();
  } catch (error) {
    assert.ok(error instanceof ApiError);
    return `${error.status.code}${'allow' in error ? ` ${String(error.allow)}` : ''}`;
  }
}

test('methods and paths make verbs', () => {
  const pods = '/api/v1/namespaces/a/pods';
  const cases: readonly (readonly [string, string, string])[] = [
    ['GET', pods, 'list pods/ a/'],
    ['GET', `${pods}?watch`, 'watch pods/ a/'],
    ['GET', `${pods}?watch=1`, 'watch pods/ a/'],
    ['GET', `${pods}?watch=True`, 'watch pods/ a/'],
    ['GET', `${pods}?watch=0`, 'list pods/ a/'],
    ['GET', `${pods}?watch=FALSE&watch=1`, 'list pods/ a/'],
    ['GET', `${pods}/x?watch=1`, 'get pods/ a/x'],
    ['GET', '/api/v1/pods', 'list pods/ /'],
    ['GET', '/api/v1/watch/pods', 'watch pods/ /'],
    ['GET', '/api/v1/watch/namespaces/a/pods/x', 'watch pods/ a/ metadata.name=x'],
    ['POST', '/api/v1/watch/pods', '405 GET'],
    ['POST', pods, 'create pods/ a/'],
    ['DELETE', pods, 'deletecollection pods/ a/'],
    ['PUT', `${pods}/x`, 'update pods/ a/x'],
    ['PATCH', `${pods}/x/status`, 'patch pods/status a/x'],
    ['DELETE', `${pods}/x`, 'delete pods/ a/x'],
    ['DELETE', '/api/v1/namespaces/a', 'delete namespaces/ /a'],
    ['PUT', '/api/v1/namespaces/a/status', 'update namespaces/status /a'],
    ['HEAD', pods, '405 GET, POST, DELETE'],
    ['OPTIONS', `${pods}/x`, '405 GET, PUT, PATCH, DELETE'],
    ['PUT', pods, '405 GET, POST, DELETE'],
    ['POST', `${pods}/x`, '405 GET, PUT, PATCH, DELETE'],
    ['DELETE', `${pods}/x/status`, '405 GET, PUT, PATCH'],
    ['POST', '/api/v1/pods', '405 GET'],
    ['DELETE', '/api/v1/pods', '405 GET'],
    ['POST', '/apis/example.com/v1/widgets', '404'],
    ['GET', '/apis/example.com/v1/widgets', 'list widgets/ /'],
    ['GET', '/api/v1/pods/x', '404'],
    ['GET', '/api/v1/namespaces/a/namespaces', '404'],
    ['GET', '/api/v1/nonsense', '404'],
    ['GET', '/api/v2/pods', '404'],
    ['GET', `${pods}/x/nonsense`, '404'],
  ];
  for (const [method, target, expected] of cases)
    assert.equal(routed(method, target), expected, `${method} ${target}`);
});
