import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JsonObject } from '../../json/json.ts';
import { patchTypeOf } from './merge-keys.ts';
import { Refusal } from '../../json/refusal.ts';
import { cases } from './strategic-merge-patch.fixture.ts';
import { applyStrategicMergePatch } from './strategic-merge-patch.ts';

const pod = patchTypeOf('v1', 'Pod');

describe('strategic merge patch', () => {
  for (const { name, object, patch, result } of cases) {
    it(name, () => {
      const before = JSON.stringify([object, patch]);
      assert.deepEqual(applyStrategicMergePatch(object, patch, pod), result);
      assert.equal(JSON.stringify([object, patch]), before, 'an argument was changed');
    });
  }

  const kinds: readonly (readonly [string, string, string, string])[] = [
    ['apps/v1', 'Deployment', '/spec/template/spec/containers', 'name'],
    ['apps/v1', 'DaemonSet', '/spec/template/spec/containers/ports', 'containerPort'],
    ['batch/v1', 'Job', '/spec/template/metadata/ownerReferences', 'uid'],
    ['batch/v1', 'CronJob', '/spec/jobTemplate/spec/template/spec/initContainers/env', 'name'],
    ['v1', 'Service', '/spec/ports', 'port'],
    ['v1', 'Node', '/status/addresses', 'type'],
    ['v1', 'ServiceAccount', '/secrets', 'name'],
    ['v1', 'ConfigMap', '/metadata/ownerReferences', 'uid'],
    ['policy/v1', 'PodDisruptionBudget', '/status/conditions', 'type'],
    [
      'admissionregistration.k8s.io/v1',
      'ValidatingWebhookConfiguration',
      '/webhooks/matchConditions',
      'name',
    ],
  ];
  for (const [apiVersion, kind, path, key] of kinds) {
    it(`${kind} ${path} is merged by ${key}`, () => {
      const steps = path.slice(1).split('/');
      let type = patchTypeOf(apiVersion, kind);
      const field = steps.reduce<ReturnType<typeof type.get>>((found, step, index) => {
        if (index > 0) type = found?.type ?? new Map();
        return type.get(step);
      }, undefined);
      assert.deepEqual([field?.mergesList, field?.mergeKey], [true, key]);
    });
  }

  it('the metadata of an unknown kind is merged, and names of object members are not kinds', () => {
    assert.equal(patchTypeOf('example.com/v1', 'Thing').size, 1);
    assert.equal(patchTypeOf('v1', 'constructor').size, 1);
    const nameless = patchTypeOf('v1', 'Pod').get('constructor');
    assert.equal(nameless, undefined);
  });

  const refusals: readonly (readonly [string, JsonObject, unknown, 400 | 422, RegExp])[] = [
    ['no object', {}, [], 400, /must be an object/],
    ['an unknown directive', {}, { spec: { $patch: 'spam' } }, 422, /^unknown patch type: spam$/],
    ['a directive that is no text', {}, { $patch: 1 }, 422, /^unknown patch type: number$/],
    [
      'an item without its key',
      {},
      { spec: { containers: [{ image: 'x' }] } },
      422,
      /declared merge key: name$/,
    ],
    [
      'a deletion without key',
      {},
      { spec: { containers: [{ $patch: 'delete' }] } },
      422,
      /declared merge key: name$/,
    ],
    [
      '$patch: merge of an item',
      {},
      { spec: { containers: [{ $patch: 'merge', name: 'a' }] } },
      422,
      /^merging lists/,
    ],
    [
      'texts for objects',
      {},
      { spec: { containers: ['a'] } },
      422,
      /^expected a list of objects, merged by "name"$/,
    ],
    [
      'objects for texts',
      {},
      { metadata: { finalizers: [{}] } },
      422,
      /^cannot merge lists without merge key/,
    ],
    [
      'mixed items',
      {},
      { metadata: { finalizers: ['a', 1] } },
      422,
      /^list element types are not identical$/,
    ],
    ['a null item', {}, { metadata: { finalizers: [null] } }, 422, /^list element types are not identical$/],
    ['lists of lists', {}, { metadata: { finalizers: [[]] } }, 422, /^lists of lists are not supported$/],
    [
      '$retainKeys that is no list',
      {},
      { spec: { $retainKeys: 'a' } },
      400,
      /^invalid patch format of retainKeys$/,
    ],
    [
      'a field that is not retained',
      {},
      { spec: { $retainKeys: ['a'], b: 1 } },
      422,
      /doesn't match retainKeys list$/,
    ],
    [
      '$deleteFromPrimitiveList that is no list',
      {},
      { metadata: { '$deleteFromPrimitiveList/finalizers': 'a' } },
      400,
      /^invalid patch format of primitive list$/,
    ],
    [
      '$deleteFromPrimitiveList of no list',
      {},
      { metadata: { $deleteFromPrimitiveList: ['a'] } },
      400,
      /^invalid patch format of primitive list$/,
    ],
    [
      '$setElementOrder that is no list',
      { metadata: { finalizers: ['a'] } },
      { metadata: { '$setElementOrder/finalizers': 'a' } },
      400,
      /^invalid patch format of setElementOrder list$/,
    ],
    [
      'a patch in another order than its $setElementOrder',
      { spec: { containers: [{ name: 'a' }] } },
      {
        spec: {
          '$setElementOrder/containers': [{ name: 'b' }, { name: 'a' }],
          containers: [{ name: 'a' }, { name: 'b' }],
        },
      },
      422,
      /doesn't match \$setElementOrder list$/,
    ],
  ];
  for (const [name, object, patch, code, message] of refusals) {
    it(`refuses ${name}`, () => {
      assert.throws(
        () => applyStrategicMergePatch(object, patch, pod),
        (error) => error instanceof Refusal && error.status.code === code && message.test(error.message),
      );
    });
  }
});
