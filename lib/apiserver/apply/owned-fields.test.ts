import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { refusalOf } from '../../json/refusal.fixture.ts';
import type { JsonObject } from '../../json/json.ts';
import { configuration, spec, Store, withSpec } from './field-manager.fixture.ts';
import { schemaless } from './type.ts';

describe('fields that a manager owns', () => {
  it('the leaves of its configuration, without what the server sets', () => {
    const store = new Store();
    store.apply('me', {
      metadata: {
        labels: { app: 'web' },
        finalizers: ['a/b'],
        creationTimestamp: null,
        uid: '1',
        generation: 3,
      },
      ...spec({
        replicas: 3,
        args: ['a', 'b'],
        zones: ['z1'],
        nodeSelector: {},
        selector: { matchLabels: { app: 'web' } },
        containers: [{ name: 'web', ports: [{ containerPort: 80 }], resources: { limits: { cpu: '1' } } }],
        strategy: { rollingUpdate: {} },
        free: { a: { b: [1] } },
      }),
    });
    assert.deepEqual(store.entries, [
      {
        manager: 'me',
        operation: 'Apply',
        apiVersion: 'example.com/v1',
        time: '2024-01-01T00:00:01Z',
        fieldsType: 'FieldsV1',
        fieldsV1: {
          'f:metadata': { 'f:finalizers': { 'v:"a/b"': {} }, 'f:labels': { 'f:app': {} } },
          'f:spec': {
            'f:args': {},
            'f:containers': {
              'k:{"name":"web"}': {
                '.': {},
                'f:name': {},
                'f:ports': { 'k:{"containerPort":80,"protocol":"TCP"}': { '.': {}, 'f:containerPort': {} } },
                'f:resources': { 'f:limits': { 'f:cpu': {} } },
              },
            },
            'f:free': { 'f:a': { '.': {}, 'f:b': {} } },
            'f:nodeSelector': {},
            'f:replicas': {},
            'f:selector': {},
            'f:strategy': { 'f:rollingUpdate': {} },
            'f:zones': { 'v:"z1"': {} },
          },
        },
      },
    ]);
    assert.deepEqual(Object.keys(store.get('metadata') as JsonObject), [
      'name',
      'labels',
      'finalizers',
      'managedFields',
    ]);
  });

  it('without schema, maps field by field and lists as a whole', () => {
    const store = new Store(schemaless);
    store.apply('me', spec({ a: { b: 1 }, c: [{ name: 'x' }], d: null }));
    assert.deepEqual(store.owned('me'), {
      'f:spec': { '.': {}, 'f:a': { '.': {}, 'f:b': {} }, 'f:c': {}, 'f:d': {} },
    });
    assert.equal(
      refusalOf(() => store.apply('you', spec({ c: [] }))).message,
      'Apply failed with 1 conflict: conflict with "me": .spec.c',
    );
  });

  it('an update owns the fields that it changed, and removed fields lose their owners', () => {
    const store = new Store();
    store.update('maker', () => configuration(spec({ replicas: 1, image: 'a' })));
    store.update('other', withSpec({ replicas: 2 }));
    assert.deepEqual(store.owned('maker', 'Update'), { 'f:spec': { '.': {}, 'f:image': {} } });
    assert.deepEqual(store.owned('other', 'Update'), { 'f:spec': { 'f:replicas': {} } });
    store.update('third', (object) => ({ ...object, spec: { replicas: 2 } }));
    assert.deepEqual(store.owned('maker', 'Update'), { 'f:spec': {} });
    assert.equal(store.owned('third', 'Update'), undefined);
  });
});
