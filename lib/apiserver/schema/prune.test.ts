/** Cases: apiextensions-apiserver `pkg/apiserver/schema/pruning/algorithm_test.go`. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { compileSchema, unknownFieldMessages } from './compiled-schema.ts';

const preserve = { 'x-kubernetes-preserve-unknown-fields': true };
const embedded = { type: 'object', 'x-kubernetes-embedded-resource': true };
const text = { type: 'string' };

type Case = readonly [
  name: string,
  properties: object,
  before: object,
  after: object,
  removed: readonly string[],
];

const cases: readonly Case[] = [
  [
    'known fields stay',
    { a: text, n: { type: 'object', properties: { b: text } } },
    { a: '1', n: { b: '2' } },
    { a: '1', n: { b: '2' } },
    [],
  ],
  [
    'unknown ones go',
    { a: text, n: { type: 'object', properties: { b: text } } },
    { a: '1', x: 1, n: { b: '2', y: { z: 1 } } },
    { a: '1', n: { b: '2' } },
    ['n.y', 'x'],
  ],
  [
    'in lists and maps',
    {
      l: { type: 'array', items: { type: 'object', properties: { b: text } } },
      m: { type: 'object', additionalProperties: { type: 'object', properties: { b: text } } },
    },
    { l: [{ b: '1' }, { c: 1 }], m: { k: { b: '1', c: 1 } } },
    { l: [{ b: '1' }, {}], m: { k: { b: '1' } } },
    ['l[1].c', 'm.k.c'],
  ],
  [
    'preserved',
    { p: { type: 'object', ...preserve } },
    { p: { a: { b: [1] } } },
    { p: { a: { b: [1] } } },
    [],
  ],
  [
    'preserved, but for what has a schema',
    { p: { type: 'object', ...preserve, properties: { s: { type: 'object', properties: { a: text } } } } },
    { p: { u: { x: 1 }, s: { a: '1', b: 2 } } },
    { p: { u: { x: 1 }, s: { a: '1' } } },
    ['p.s.b'],
  ],
  [
    'preserving goes through lists',
    {
      p: {
        type: 'array',
        ...preserve,
        items: { type: 'object', properties: { s: { type: 'object', properties: {} } } },
      },
    },
    { p: [{ u: 1, s: { x: 1 } }] },
    { p: [{ u: 1, s: {} }] },
    ['p[0].s.x'],
  ],
  [
    'an embedded resource keeps its type and metadata',
    { r: { ...embedded, properties: { spec: { type: 'object', properties: { a: text } } } } },
    { r: { apiVersion: 'v1', kind: 'K', metadata: { any: 1 }, status: 1, spec: { a: '', b: 1 } } },
    { r: { apiVersion: 'v1', kind: 'K', metadata: { any: 1 }, spec: { a: '' } } },
    ['r.spec.b', 'r.status'],
  ],
  [
    'additionalProperties: true lets fields stay, not what is below them',
    { m: { type: 'object', additionalProperties: true } },
    { m: { a: 1, b: { c: 1 } } },
    { m: { a: 1, b: {} } },
    ['m.b.c'],
  ],
  [
    'names of methods are unknown',
    { a: text },
    { constructor: 1, toString: 2 },
    {},
    ['constructor', 'toString'],
  ],
];

suite('prune', () => {
  for (const [name, properties, before, after, removed] of cases) {
    test(name, () => {
      const schema = compileSchema({ type: 'object', properties }, { strict: false });
      assert.deepEqual(schema.prune(before), removed);
      assert.deepEqual(before, after);
    });
  }

  test('apiVersion, kind and metadata of a resource stay', () => {
    const object = { apiVersion: 'v1', kind: 'K', metadata: { labels: { a: 'b' } }, other: 1 };
    assert.deepEqual(compileSchema({ type: 'object' }).prune(object), ['other']);
    assert.deepEqual(compileSchema({ type: 'object' }, { resource: false }).prune(object), [
      'apiVersion',
      'kind',
      'metadata',
    ]);
  });

  test('the words of strict field validation', () => {
    assert.deepEqual(unknownFieldMessages(['spec.foo', 'spec.l[0].bar']), [
      'unknown field "spec.foo"',
      'unknown field "spec.l[0].bar"',
    ]);
  });

  test('lists without end under a schema without end: a typed error', () => {
    const schema = compileSchema(
      { properties: { m: { type: 'object', additionalProperties: true } } },
      { strict: false },
    );
    let deep: unknown = 1;
    for (let level = 0; level < 200_000; level++) deep = [deep];
    assert.throws(() => schema.prune({ m: { deep } }), { code: 'RAMPART_LIMIT' });
  });
});
