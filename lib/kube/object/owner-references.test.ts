import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { type KubeObject, nodes, type OwnerReference, type ResourceType } from './object.ts';
import { controllerOf, withController } from './owner-references.ts';

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
const webReference: OwnerReference = { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web', uid: 'u1' };

suite('owner references', () => {
  test('a controller is set once; the given child is not changed', () => {
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

  test('a second controller is refused', () => {
    const owned = withController(child, deployments, web);
    assert.throws(() => withController(owned, deployments, other), {
      code: 'RAMPART_CONFLICT',
      message:
        /deployments shop\/other as the controller of Pod shop\/p: Deployment "web" is already its controller/,
    });
  });

  test('an owner becomes the controller in its place', () => {
    const second = { ...webReference, name: 'other', uid: 'u2' };
    const owned = { ...child, metadata: { ...child.metadata, ownerReferences: [webReference, second] } };
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
});
