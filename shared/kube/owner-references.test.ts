import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { type KubeObject, nodes, type ResourceType } from './object.ts';
import {
  controllerKey,
  controllerOf,
  isOwnedBy,
  ownerKeys,
  withController,
  withOwner,
  withoutOwner,
} from './owner-references.ts';

const deployments: ResourceType = {
  group: 'apps',
  version: 'v1',
  plural: 'deployments',
  kind: 'Deployment',
  namespaced: true,
};
const web: KubeObject = { metadata: { namespace: 'shop', name: 'web', uid: 'u1' } };
const other: KubeObject = { metadata: { namespace: 'shop', name: 'other', uid: 'u2' } };
const node: KubeObject = { metadata: { name: 'n1', uid: 'n' } };
const child: KubeObject = { kind: 'Pod', metadata: { namespace: 'shop', name: 'p', labels: { a: 'b' } } };
const webReference = { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web', uid: 'u1' };

suite('owner references', () => {
  test('a controller is set once; the child that was given stays as it was', () => {
    const owned = withController(child, deployments, web);
    assert.deepEqual(owned.metadata, {
      ...child.metadata,
      ownerReferences: [{ ...webReference, controller: true, blockOwnerDeletion: true }],
    });
    assert.equal(child.metadata.ownerReferences, undefined);
    assert.equal(withController(owned, deployments, web), owned);
    assert.equal(
      withController(owned, { ...deployments, version: 'v2' }, web).metadata.ownerReferences?.[0]?.apiVersion,
      'apps/v2',
    );
  });

  test('a second controller is refused, another owner is not', () => {
    const owned = withController(child, deployments, web);
    assert.throws(() => withController(owned, deployments, other), {
      code: 'RAMPART_CONFLICT',
      message: /deployments shop\/other the controller of Pod shop\/p: Deployment "web" is already/,
    });
    const both = withOwner(owned, deployments, other);
    assert.equal(both.metadata.ownerReferences?.length, 2);
    assert.equal(controllerOf(both)?.name, 'web');
    assert.equal(withOwner(both, deployments, other), both);
    assert.deepEqual(withoutOwner(both, web).metadata.ownerReferences, [
      { apiVersion: 'apps/v1', kind: 'Deployment', name: 'other', uid: 'u2' },
    ]);
    assert.equal(withoutOwner(child, web), child);
  });

  test('an owner becomes the controller in its place', () => {
    const owned = withOwner(withOwner(child, deployments, web), deployments, other);
    const ruled = withController(owned, deployments, web);
    assert.deepEqual(
      ruled.metadata.ownerReferences?.map(({ name, controller }) => [name, controller]),
      [
        ['web', true],
        ['other', undefined],
      ],
    );
  });

  test('an owner in another namespace is refused, also of a cluster-scoped child; a cluster-scoped owner is not', () => {
    const elsewhere: KubeObject = { metadata: { namespace: 'lab', name: 'p' } };
    const everywhere: KubeObject = { metadata: { name: 'p' } };
    for (const wrong of [elsewhere, everywhere]) {
      assert.throws(() => withController(wrong, deployments, web), { code: 'RAMPART_INPUT' });
      assert.throws(() => withOwner(wrong, deployments, web), /same namespace, or cluster-scoped/);
    }
    for (const one of [child, everywhere]) {
      assert.equal(controllerOf(withController(one, nodes, node))?.apiVersion, 'v1');
    }
  });

  test('an owner that is not stored is refused', () => {
    assert.throws(() => withController(child, deployments, { metadata: { namespace: 'shop', name: 'x' } }), {
      code: 'RAMPART_INPUT',
      message: /must be stored first/,
    });
  });

  test('from a child to the owner whom it concerns', () => {
    const owned = withController(withOwner(child, nodes, node), deployments, web);
    const key = { namespace: 'shop', name: 'web', uid: 'u1' };
    assert.deepEqual(controllerKey(owned, deployments), key);
    assert.deepEqual(controllerKey(owned, { ...deployments, version: 'v9' }), key);
    assert.equal(controllerKey(owned, { ...deployments, group: '' }), undefined);
    assert.equal(controllerKey(owned, { ...deployments, group: 'app' }), undefined);
    assert.equal(controllerKey(owned, nodes), undefined);
    assert.equal(controllerKey(child, deployments), undefined);
    assert.deepEqual(ownerKeys(owned, nodes), [{ namespace: undefined, name: 'n1', uid: 'n' }]);
    assert.deepEqual(ownerKeys(child, nodes), []);
    assert.equal(isOwnedBy(owned, web), true);
    assert.equal(isOwnedBy(owned, { metadata: { ...web.metadata, uid: 'u9' } }), false);
    assert.equal(isOwnedBy(owned, { metadata: {} }), false);
  });
});
