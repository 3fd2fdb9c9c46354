import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JsonObject } from '../../json/json.ts';
import { toFieldsV1 } from './managed-fields.ts';
import { fieldsOf } from './fields-of.ts';
import { applyTypeOf } from './type.ts';
import { problemsOf } from './validate.ts';

const owned = (schema: JsonObject, value: JsonObject, refs: Readonly<Record<string, JsonObject>> = {}) => {
  const type = applyTypeOf(
    { type: 'object', properties: { x: schema } },
    (ref) => refs[ref.slice('#/components/schemas/'.length)],
  );
  return toFieldsV1(fieldsOf({ x: value }, type))['f:x'];
};

const reference = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` });

describe('the type that a schema makes', () => {
  const item = { type: 'object', properties: { name: { type: 'string' }, n: { type: 'integer' } } };
  const list = [{ name: 'a', n: 1 }];
  const byName = { 'k:{"name":"a"}': { '.': {}, 'f:name': {}, 'f:n': {} } };
  const cases: readonly (readonly [
    string,
    JsonObject,
    unknown,
    unknown,
    Readonly<Record<string, JsonObject>>?,
  ])[] = [
    ['a list is one value', { type: 'array', items: item }, list, {}],
    ['also when it is said', { type: 'array', items: item, 'x-kubernetes-list-type': 'atomic' }, list, {}],
    [
      'a map by its keys',
      { type: 'array', items: item, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] },
      list,
      byName,
    ],
    [
      'a map without keys is one value',
      { type: 'array', items: item, 'x-kubernetes-list-type': 'map' },
      list,
      {},
    ],
    [
      'a set',
      { type: 'array', items: { type: 'integer' }, 'x-kubernetes-list-type': 'set' },
      [10, 9, 1],
      { 'v:1': {}, 'v:9': {}, 'v:10': {} },
    ],
    [
      'the words of strategic merge patch: with a key',
      {
        type: 'array',
        items: item,
        'x-kubernetes-patch-strategy': 'merge',
        'x-kubernetes-patch-merge-key': 'name',
      },
      list,
      byName,
    ],
    [
      'and without one',
      { type: 'array', items: { type: 'string' }, 'x-kubernetes-patch-strategy': 'merge' },
      ['a'],
      { 'v:"a"': {} },
    ],
    [
      'the list type counts more',
      {
        type: 'array',
        items: item,
        'x-kubernetes-list-type': 'atomic',
        'x-kubernetes-patch-strategy': 'merge',
        'x-kubernetes-patch-merge-key': 'name',
      },
      list,
      {},
    ],
    ['a map that is one value', { ...item, 'x-kubernetes-map-type': 'atomic' }, { name: 'a' }, {}],
    ['a granular map', { ...item, 'x-kubernetes-map-type': 'granular' }, { name: 'a' }, { 'f:name': {} }],
    [
      'keys of a map are somebody’s',
      { type: 'object', additionalProperties: item },
      { a: {}, b: { n: 1 } },
      { 'f:a': {}, 'f:b': { '.': {}, 'f:n': {} } },
    ],
    ['a free object', { type: 'object' }, { a: { b: [1] } }, { 'f:a': { '.': {}, 'f:b': {} } }],
    ['any object', { type: 'object', additionalProperties: true }, { a: 1 }, { 'f:a': {} }],
    ['anything', { 'x-kubernetes-preserve-unknown-fields': true }, { a: [1] }, { 'f:a': {} }],
    ['an int or string', { 'x-kubernetes-int-or-string': true }, '50%', {}],
    ['a reference', reference('Item'), { name: 'a' }, { 'f:name': {} }, { Item: item }],
    [
      'a reference beside a default',
      { allOf: [reference('Item')], default: {} },
      { name: 'a' },
      { 'f:name': {} },
      { Item: item },
    ],
    [
      'a reference that is made one value',
      { allOf: [reference('Item')], 'x-kubernetes-map-type': 'atomic' },
      { name: 'a' },
      {},
      { Item: item },
    ],
    ['a reference to nothing is one value', reference('Nothing'), { name: 'a' }, {}],
    ['a quantity', reference('io.k8s.apimachinery.pkg.api.resource.Quantity'), '1Gi', {}],
    [
      'a schema in itself',
      reference('Tree'),
      { inner: { inner: { name: 'a' } } },
      { 'f:inner': { 'f:inner': { 'f:name': {} } } },
      { Tree: { type: 'object', properties: { name: { type: 'string' }, inner: reference('Tree') } } },
    ],
    [
      'the default of a key, behind a reference',
      {
        type: 'array',
        items: reference('Port'),
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['port', 'protocol'],
      },
      [{ port: 80 }],
      { 'k:{"port":80,"protocol":"TCP"}': { '.': {}, 'f:port': {} } },
      {
        Port: {
          type: 'object',
          properties: { port: { type: 'integer' }, protocol: { type: 'string', default: 'TCP' } },
        },
      },
    ],
    [
      'an embedded object has metadata',
      {
        type: 'object',
        'x-kubernetes-embedded-resource': true,
        properties: { metadata: { type: 'object' } },
      },
      { metadata: { finalizers: ['a'], ownerReferences: [{ uid: '1', name: 'x' }] } },
      { 'f:metadata': { 'f:finalizers': { 'v:"a"': {} }, 'f:ownerReferences': { 'k:{"uid":"1"}': {} } } },
    ],
  ];
  for (const [name, schema, value, expected, refs] of cases) {
    it(name, () => assert.deepEqual(owned(schema, value as JsonObject, refs), expected));
  }

  it('metadata with a full schema is used unchanged', () => {
    const metadata = {
      type: 'object',
      properties: { ownerReferences: { type: 'array', items: {} }, mine: { type: 'string' } },
    };
    const type = applyTypeOf({ type: 'object', properties: { metadata } });
    assert.deepEqual(problemsOf({ metadata: { mine: 'a', labels: {} } }, type), [
      '.metadata.labels: field not declared in schema',
    ]);
  });

  it('texts with a format may be anything, but byte', () => {
    const type = applyTypeOf({
      type: 'object',
      properties: { time: { type: 'string', format: 'date-time' }, data: { type: 'string', format: 'byte' } },
    });
    assert.deepEqual(problemsOf({ time: 5, data: 5 }, type), ['.data: expected string, got 5']);
  });
});
