/** Laws that hold for every schema and every object. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { compileSchema, InvalidSchemaError } from './compiled-schema.ts';
import { fileIntegrity, kiveData, kivePolicy } from './crds.fixture.ts';
import { canonicalJson, deepEqual } from '../../json/json.ts';

const fieldName = fc.constantFrom('a', 'b', 'c', 'constructor', '__proto__', 'metadata', 'kind');

/** An object with these fields, of which one may be called `__proto__`. */
const objectOf = (entries: readonly (readonly [string, unknown])[]): object => {
  const object = {};
  for (const [name, value] of entries) {
    Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
  }
  return object;
};

const fields = <Value>(value: fc.Arbitrary<Value>): fc.Arbitrary<object> =>
  fc.array(fc.tuple(fieldName, value), { maxLength: 4 }).map(objectOf);

const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(null, true, false, 0, 1, -3, 2.5, 'x', '', 'abc'),
    fc.array(tie('value'), { maxLength: 3 }),
    fields(tie('value')),
  ),
}));

/** Structural schemas with defaults that are valid, nullable fields, maps, lists, preserved and embedded parts. */
const { schema } = fc.letrec<{ schema: object }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 4 },
    fc.record(
      {
        type: fc.constant('string'),
        default: fc.constantFrom('x', 'dd'),
        maxLength: fc.constantFrom(2, 9),
        nullable: fc.boolean(),
      },
      { requiredKeys: ['type'] },
    ),
    fc.record(
      {
        type: fc.constant('integer'),
        default: fc.constantFrom(1, 2),
        minimum: fc.constantFrom(-5, 1),
        nullable: fc.boolean(),
      },
      { requiredKeys: ['type'] },
    ),
    fc.constant({ type: 'boolean' }),
    fc.constant({ 'x-kubernetes-int-or-string': true }),
    fc.constant({ 'x-kubernetes-preserve-unknown-fields': true }),
    fc.constant({
      type: 'object',
      'x-kubernetes-embedded-resource': true,
      'x-kubernetes-preserve-unknown-fields': true,
    }),
    tie('schema').map((items) => ({ type: 'array', items })),
    tie('schema').map((additionalProperties) => ({ type: 'object', additionalProperties })),
    fields(tie('schema')).map((properties) => ({ type: 'object', properties })),
    fields(tie('schema')).map((properties) => ({ type: 'object', properties, default: {} })),
    fields(tie('schema')).map((properties) => ({
      type: 'object',
      properties,
      'x-kubernetes-preserve-unknown-fields': true,
    })),
  ),
}));

const compiled = schema.map((field) =>
  compileSchema({ type: 'object', properties: { field } }, { strict: false }),
);
const object = value.map((field) => ({ apiVersion: 'v1', field }));
const copy = (json: unknown): unknown => JSON.parse(JSON.stringify(json));
const runs = { numRuns: 1_500 };

suite('laws', () => {
  test('pruned twice is pruned once', () => {
    fc.assert(
      fc.property(compiled, object, (one, before) => {
        const removed = one.prune(before);
        const once = copy(before);
        assert.deepEqual(one.prune(before), []);
        assert.deepEqual(before, once);
        assert.deepEqual(removed, [...removed].sort());
      }),
      runs,
    );
  });

  test('defaulted twice is defaulted once', () => {
    fc.assert(
      fc.property(compiled, object, (one, before) => {
        one.applyDefaults(before);
        const once = copy(before);
        one.applyDefaults(before);
        assert.deepEqual(before, once);
      }),
      runs,
    );
  });

  test('pruning makes no valid object invalid, and neither does defaulting what was defaulted', () => {
    fc.assert(
      fc.property(compiled, object, (one, before) => {
        one.applyDefaults(before);
        const valid = one.validate(before).length === 0;
        one.prune(before);
        one.applyDefaults(before);
        if (valid) assert.deepEqual(one.validate(before), []);
        assert.deepEqual(one.prune(before), []);
      }),
      runs,
    );
  });

  test('validation changes nothing, and answers the same twice', () => {
    fc.assert(
      fc.property(compiled, object, (one, before) => {
        const once = canonicalJson(before);
        assert.deepEqual(one.validate(before), one.validate(before));
        assert.equal(canonicalJson(before), once);
      }),
      runs,
    );
  });

  test('an update that changes nothing is valid, and one of everything is judged like a creation', () => {
    fc.assert(
      fc.property(compiled, object, (one, before) => {
        assert.deepEqual(one.validate(before, copy(before)), []);
        assert.deepEqual(one.validate(before, {}), one.validate(before));
      }),
      runs,
    );
  });

  test('equal is what has the same canonical text', () => {
    fc.assert(
      fc.property(value, value, (a, b) => {
        assert.equal(deepEqual(a, b), canonicalJson(a) === canonicalJson(b));
        assert.ok(deepEqual(a, copy(a)));
      }),
    );
  });
});

suite('nothing but typed errors', () => {
  const refused = (candidate: unknown): void => {
    try {
      const one = compileSchema(candidate);
      one.validate({ a: 1 });
    } catch (error) {
      assert.ok(error instanceof InvalidSchemaError, String(error));
      assert.ok(error.causes.length > 0);
    }
  };
  const keywords = [
    'type',
    'properties',
    'items',
    'default',
    'enum',
    'required',
    'pattern',
    'format',
    'anyOf',
    'allOf',
    'oneOf',
    'not',
    'nullable',
    'additionalProperties',
    'minimum',
    'maxLength',
    'x-kubernetes-list-type',
    'x-kubernetes-list-map-keys',
    'x-kubernetes-map-type',
    'x-kubernetes-validations',
    'x-kubernetes-int-or-string',
    'x-kubernetes-embedded-resource',
    'x-kubernetes-preserve-unknown-fields',
    '$ref',
    'uniqueItems',
    '__proto__',
    'constructor',
  ];

  test('any JSON for a schema', () => {
    fc.assert(fc.property(fc.jsonValue({ maxDepth: 6 }), refused));
  });
  test('keywords with any content', () => {
    const { wild } = fc.letrec<{ wild: unknown }>((tie) => ({
      wild: fc.oneof(
        { maxDepth: 5 },
        fc.constantFrom(
          'object',
          'array',
          'string',
          'integer',
          'map',
          'set',
          true,
          false,
          null,
          1,
          -1,
          '(',
          '^a+$',
          'self == 1',
        ),
        fc.array(
          fc.oneof(
            tie('wild'),
            fc.record({ rule: fc.constantFrom('self', 'true', 'self.a == 1', '(', 'has(self.a)') }),
          ),
          { maxLength: 3 },
        ),
        fc.array(fc.tuple(fc.constantFrom(...keywords, 'a'), tie('wild')), { maxLength: 5 }).map(objectOf),
      ),
    }));
    const wildSchema = fc
      .array(fc.tuple(fc.constantFrom(...keywords), wild), { maxLength: 6 })
      .map((entries) => objectOf([['type', 'object'], ...entries]));
    fc.assert(fc.property(wildSchema, refused), { numRuns: 3_000 });
  });
  test('any JSON for an object of a real resource, old and new', () => {
    const schemas = [kivePolicy, kiveData, fileIntegrity].map((one) => compileSchema(one));
    const wild = fc.letrec<{ wild: unknown }>((tie) => ({
      wild: fc.oneof(
        { maxDepth: 6 },
        fc.jsonValue({ maxDepth: 1 }),
        fc.constantFrom('/etc/x', 444, '10.0.0.1', {}, [], null, 'v1'),
        fc.array(tie('wild'), { maxLength: 3 }),
        fc
          .array(
            fc.tuple(
              fc.constantFrom(
                'spec',
                'status',
                'traps',
                'path',
                'matchAny',
                'ip',
                'mode',
                'create',
                'matchLabels',
                'config',
                'conditions',
                'inodeNo',
                'devId',
                'tolerations',
              ),
              tie('wild'),
            ),
            { maxLength: 5 },
          )
          .map(objectOf),
      ),
    })).wild;
    fc.assert(
      fc.property(fc.constantFrom(...schemas), wild, wild, (one, now, before) => {
        one.applyDefaults(now);
        one.prune(now);
        for (const cause of one.validate(now, before)) {
          assert.equal(typeof cause.field, 'string');
          assert.notEqual(cause.message, '');
          assert.ok(!cause.message.includes('undefined'), cause.message);
        }
      }),
      { numRuns: 3_000 },
    );
  });
  test('random rules', () => {
    const token = fc.constantFrom(
      'self',
      'oldSelf',
      '.a',
      '.b',
      '.l',
      '[0]',
      '[',
      ']',
      '(',
      ')',
      '.all(x, ',
      '.map(x, x)',
      '.exists(x, x == 1)',
      '.size()',
      ' == ',
      ' && ',
      ' || ',
      ' + ',
      '!',
      ' ? ',
      ' : ',
      '1',
      "'s'",
      'true',
      'x',
      '.?a',
      '.orValue(1)',
      'has(',
      '.matches(',
      ', ',
      ' in ',
      '{',
      '}',
      'duration(',
      'optional.none()',
      '-',
      '.format([',
      '])',
      'cel.bind(x, ',
    );
    fc.assert(
      fc.property(fc.array(token, { maxLength: 14 }), value, (tokens, spec) => {
        const candidate = {
          type: 'object',
          properties: {
            spec: {
              type: 'object',
              properties: {
                a: { type: 'integer' },
                b: { type: 'string' },
                l: { type: 'array', items: { type: 'string' } },
              },
              'x-kubernetes-validations': [{ rule: tokens.join(''), messageExpression: tokens.join('') }],
            },
          },
        };
        refused(candidate);
        compileSchema(candidate, { strict: false }).validate({ spec }, { spec });
      }),
      { numRuns: 3_000 },
    );
  });
  test('an object without end', () => {
    let deep: unknown = 1;
    for (let level = 0; level < 100_000; level++) deep = level % 2 === 0 ? { a: deep } : [deep];
    const one = compileSchema({
      type: 'object',
      properties: { a: { 'x-kubernetes-preserve-unknown-fields': true, enum: [1] } },
    });
    const object_ = { a: deep };
    assert.ok(one.validate(object_).length > 0);
    assert.ok(one.validate(object_, { a: { a: [1] } }).length > 0);
    assert.doesNotThrow(() => one.prune(object_));
  });
});
