/** Wording: apiextensions-apiserver `pkg/apiserver/schema/listtype/validation.go`, `objectmeta/validation.go`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { problemsOf } from './schema.fixture.ts';

const set = { type: 'array', 'x-kubernetes-list-type': 'set', items: {} };
const mapBy = (...keys: string[]): object => ({
  type: 'array',
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': keys,
  items: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
});

test('sets: each value once, the second time is reported', () => {
  assert.deepEqual(problemsOf(set, ['a', 'b', 'a', 'a', 1, 1, '1']), [
    'field[2]: Duplicate value: "a"',
    'field[5]: Duplicate value: 1',
  ]);
  assert.deepEqual(
    problemsOf(set, [
      { a: 1, b: 2 },
      { b: 2, a: 1 },
    ]),
    ['field[1]: Duplicate value: {"a":1,"b":2}'],
  );
});

test('list maps: each combination of keys once', () => {
  assert.deepEqual(
    problemsOf(mapBy('name'), [
      { name: 'x', v: 1 },
      { name: 'x', v: 2 },
    ]),
    ['field[1]: Duplicate value: {"name":"x"}'],
  );
  assert.deepEqual(problemsOf(mapBy('a', 'b'), [{ a: 1 }, { a: 1, b: 2 }, { a: 1 }]), [
    'field[2]: Duplicate value: {"a":1}',
  ]);
  assert.deepEqual(problemsOf(mapBy('name'), [{}, {}]), ['field[1]: Duplicate value: {}']);
  assert.ok(
    problemsOf(mapBy('name'), ['x']).includes(
      'field[0]: Invalid value: "x": must be an object for an array of list-type map',
    ),
  );
});

test('atomic lists may repeat values', () => {
  assert.deepEqual(
    problemsOf({ type: 'array', 'x-kubernetes-list-type': 'atomic', items: {} }, ['a', 'a']),
    [],
  );
});

test('lists below maps of values: the key in brackets', () => {
  assert.deepEqual(problemsOf({ type: 'object', additionalProperties: set }, { k: ['a', 'a'] }), [
    'field[k][1]: Duplicate value: "a"',
  ]);
});

test('embedded resources have a type, and metadata that is metadata', () => {
  const embedded = {
    type: 'object',
    'x-kubernetes-embedded-resource': true,
    'x-kubernetes-preserve-unknown-fields': true,
  };
  assert.deepEqual(problemsOf(embedded, {}), [
    'field.apiVersion: Required value',
    'field.kind: Required value',
  ]);
  assert.deepEqual(problemsOf(embedded, { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' } }), []);
  assert.deepEqual(problemsOf(embedded, { apiVersion: 'a/b/c', kind: 'Pod', metadata: { name: 'a/b' } }), [
    'field.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
    'field.metadata.name: Invalid value: "a/b": may not contain \'/\'',
  ]);
  assert.equal(problemsOf(embedded, { apiVersion: 1, kind: '_', metadata: { labels: { a: 1 } } }).length, 3);
  assert.deepEqual(problemsOf(embedded, { apiVersion: 'v1', kind: 'Pod', metadata: 3 }), [
    'field.metadata: Invalid value: 3: expected object, got integer',
  ]);
});
