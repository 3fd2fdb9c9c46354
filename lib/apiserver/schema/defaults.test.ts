/** Cases: apiextensions-apiserver `pkg/apiserver/schema/defaulting/algorithm_test.go`, `prunenulls_test.go`. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { compileSchema } from './compiled-schema.ts';

const withDefault = (value: unknown, extra: object = {}): object => ({
  type: 'string',
  default: value,
  ...extra,
});
const object = (properties: object, extra: object = {}): object => ({ type: 'object', properties, ...extra });

const cases: readonly (readonly [name: string, properties: object, before: object, after: object])[] = [
  [
    'missing fields are filled in',
    { a: withDefault('x'), b: withDefault('y') },
    { b: 'z' },
    { a: 'x', b: 'z' },
  ],
  ['objects are not made for their fields', { o: object({ a: withDefault('x') }) }, {}, {}],
  ['but filled where they are', { o: object({ a: withDefault('x') }) }, { o: {} }, { o: { a: 'x' } }],
  [
    'a default is defaulted in turn',
    { o: object({ a: withDefault('x') }, { default: {} }) },
    {},
    { o: { a: 'x' } },
  ],
  [
    'in lists and maps',
    {
      l: { type: 'array', items: object({ a: withDefault('x') }) },
      m: { type: 'object', additionalProperties: object({ a: withDefault('x') }) },
    },
    { l: [{}, { a: 'y' }], m: { k: {} } },
    { l: [{ a: 'x' }, { a: 'y' }], m: { k: { a: 'x' } } },
  ],
  ['null without nullable is dropped, then filled', { a: withDefault('x') }, { a: null }, { a: 'x' }],
  ['null without nullable and default is dropped', { a: { type: 'string' } }, { a: null }, {}],
  ['null with nullable stays', { a: withDefault('x', { nullable: true }) }, { a: null }, { a: null }],
  ['null of an unknown field is left to pruning', {}, { a: null }, { a: null }],
  [
    'nulls in maps',
    {
      m: { type: 'object', additionalProperties: withDefault('x') },
      n: { type: 'object', additionalProperties: { type: 'string' } },
    },
    { m: { a: null }, n: { a: null, b: '' } },
    { m: { a: 'x' }, n: { b: '' } },
  ],
  [
    'nulls in lists: filled by a default, otherwise left to validation',
    { l: { type: 'array', items: withDefault('x') }, m: { type: 'array', items: { type: 'string' } } },
    { l: [null, 'y'], m: [null] },
    { l: ['x', 'y'], m: [null] },
  ],
  [
    'false, 0 and "" are values',
    { a: withDefault(''), b: { type: 'integer', default: 0 } },
    {},
    { a: '', b: 0 },
  ],
];

suite('defaults', () => {
  for (const [name, properties, before, after] of cases) {
    test(name, () => {
      compileSchema({ type: 'object', properties }, { strict: false }).applyDefaults(before);
      assert.deepEqual(before, after);
    });
  }

  test('each object gets a copy', () => {
    const schema = compileSchema(
      { type: 'object', properties: { o: object({}, { default: { x: [1] } }) } },
      { strict: false },
    );
    const [one, two] = [{} as { o: { x: number[] } }, {} as { o: { x: number[] } }];
    schema.applyDefaults(one);
    one.o.x.push(2);
    schema.applyDefaults(two);
    assert.deepEqual(two, { o: { x: [1] } });
  });

  test('a default for a field called __proto__ is a field', () => {
    const properties = JSON.parse('{"__proto__":{"type":"object","default":{"x":1}}}') as object;
    const target: object = {};
    compileSchema({ type: 'object', properties }, { strict: false }).applyDefaults(target);
    assert.equal((target as { x?: number }).x, undefined);
    assert.equal(JSON.stringify(target), '{"__proto__":{"x":1}}');
  });
});
