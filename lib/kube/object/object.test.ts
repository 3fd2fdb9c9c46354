import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { apiVersionOf, describeTarget, leases, nodes, pods, resourcePath, scopedAs } from './object.ts';

suite('paths of resources', () => {
  const lease = { namespace: 'kube-system', name: 'rampart' };
  const cases = [
    [pods, {}, '/api/v1/pods', 'pods'],
    [pods, { namespace: 'a' }, '/api/v1/namespaces/a/pods', 'pods in namespace a'],
    [pods, { namespace: 'a', name: 'b' }, '/api/v1/namespaces/a/pods/b', 'pods a/b'],
    [nodes, { name: 'b', subresource: 'status' }, '/api/v1/nodes/b/status', 'nodes/status b'],
    [
      leases,
      lease,
      '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/rampart',
      'leases kube-system/rampart',
    ],
    [nodes, { name: 'system:a b' }, '/api/v1/nodes/system%3Aa%20b', 'nodes system:a b'],
    [nodes, { name: 'a', subresource: 'proxy/b' }, '/api/v1/nodes/a/proxy/b', 'nodes/proxy/b a'],
  ] as const;
  for (const [type, target, path, words] of cases) {
    test(path, () => {
      assert.equal(resourcePath(type, target), path);
      assert.equal(describeTarget(type, target), words);
    });
  }

  test('parts that would lead to another path are refused', () => {
    for (const name of ['', '.', '..', 'a/b', '../secrets/x', 'a%2fb']) {
      assert.throws(() => resourcePath(nodes, { name }), { code: 'RAMPART_INPUT' }, name);
      assert.throws(
        () => resourcePath(pods, { namespace: name, name: 'a' }),
        { code: 'RAMPART_INPUT' },
        name,
      );
    }
    assert.throws(() => resourcePath(nodes, { namespace: 'a' }), /nodes are not namespaced/);
    assert.throws(() => resourcePath(pods, { name: 'a' }), /its namespace is missing/);
  });

  test('any name that is taken stays one segment of the path', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (name) => {
        let path: string;
        try {
          path = resourcePath(pods, { namespace: 'a', name });
        } catch {
          return;
        }
        assert.equal(new URL(path, 'https://a').pathname, path);
        assert.equal(decodeURIComponent(path.split('/')[6] ?? ''), name);
      }),
    );
  });

  test('apiVersion', () => {
    assert.deepEqual([pods, leases].map(apiVersionOf), ['v1', 'coordination.k8s.io/v1']);
  });
});

test('an object of the API has the scope that it says, whatever its type was declared as', () => {
  const [whole, own] = [{ metadata: { name: 'a' } }, { metadata: { name: 'a', namespace: 'b' } }];
  assert.equal(scopedAs(pods, own), pods);
  assert.equal(resourcePath(scopedAs(pods, whole), whole.metadata), '/api/v1/pods/a');
  assert.equal(resourcePath(scopedAs(nodes, own), own.metadata), '/api/v1/namespaces/b/nodes/a');
});
