/**
 * Wording: apiextensions-apiserver `pkg/apiserver/validation/validation_test.go` (the cases named there), kube-openapi
 * `pkg/validation/errors/schema.go` and apimachinery `pkg/util/validation/field/errors.go` for the rest.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { compileSchema } from './compiled-schema.ts';
import { lines, problemsOf } from './schema.fixture.ts';

type Case = readonly [name: string, schema: object, value: unknown, expected: readonly string[]];

function table(cases: readonly Case[]): void {
  for (const [name, schema, value, expected] of cases) {
    test(name, () => assert.deepEqual(problemsOf(schema, value).sort(), [...expected].sort()));
  }
}

suite('types (validation_test.go, "!nullable", "nullable", "x-kubernetes-int-or-string")', () => {
  const wrong = (type: string, found: string): string[] => [
    `field: Invalid value: "${found}": field in body must be of type ${type}: "${found}"`,
  ];
  const values: readonly [unknown, string][] = [
    ['foo', 'string'],
    [42, 'integer'],
    [true, 'boolean'],
    [1.2, 'number'],
    [[], 'array'],
    [null, 'null'],
    [{}, 'object'],
  ];
  for (const [value, type] of values) {
    test(`${type} where another type is asked for`, () => {
      if (type !== 'object') assert.deepEqual(problemsOf({ type: 'object' }, value), wrong('object', type));
      if (type !== 'string') assert.deepEqual(problemsOf({ type: 'string' }, value), wrong('string', type));
      const intOrString = problemsOf({ 'x-kubernetes-int-or-string': true }, value);
      const fits = type === 'string' || type === 'integer';
      assert.deepEqual(intOrString, fits ? [] : wrong('integer,string', type));
      assert.deepEqual(problemsOf({}, value), [], 'no type: any value');
    });
  }
  table([
    ['nullable takes null', { type: 'object', nullable: true }, null, []],
    ['an integer is a number', { type: 'number' }, 3, []],
    ['2.0 is an integer', { type: 'integer' }, 2.0, []],
    ['a fraction is no integer', { type: 'integer' }, 2.5, wrong('integer', 'number')],
    ['an int64 beyond 2^53 read exactly', { type: 'integer' }, 9_007_199_254_740_993n, []],
    ['1e30 is no int64', { type: 'integer' }, 1e30, wrong('integer', 'number')],
  ]);
});

suite('anyOf, allOf, oneOf, not (validation_test.go, "user-provided anyOf", "user-provider allOf")', () => {
  const either = [{ type: 'integer' }, { type: 'string' }];
  table([
    [
      'anyOf of int-or-string',
      { nullable: true, 'x-kubernetes-int-or-string': true, anyOf: either },
      true,
      [
        '<nil>: Invalid value: "": "field" must validate at least one schema (anyOf)',
        'field: Invalid value: "boolean": field in body must be of type integer,string: "boolean"',
        'field: Invalid value: "boolean": field in body must be of type integer: "boolean"',
      ],
    ],
    [
      'allOf of anyOf',
      { nullable: true, 'x-kubernetes-int-or-string': true, allOf: [{ anyOf: either }] },
      1.2,
      [
        '<nil>: Invalid value: "": "field" must validate all the schemas (allOf). None validated',
        '<nil>: Invalid value: "": "field" must validate at least one schema (anyOf)',
        'field: Invalid value: "number": field in body must be of type integer,string: "number"',
        'field: Invalid value: "number": field in body must be of type integer: "number"',
      ],
    ],
    ['anyOf satisfied', { anyOf: [{ required: ['a'] }, { required: ['b'] }] }, { b: 1 }, []],
    [
      'oneOf with none',
      { oneOf: [{ required: ['a'] }, { required: ['b'] }] },
      {},
      [
        '<nil>: Invalid value: "": "field" must validate one and only one schema (oneOf). Found none valid',
        'field.a: Required value',
      ],
    ],
    [
      'oneOf with two',
      { oneOf: [{ required: ['a'] }, { required: ['b'] }] },
      { a: 1, b: 1 },
      [
        '<nil>: Invalid value: "": "field" must validate one and only one schema (oneOf). Found 2 valid alternatives',
      ],
    ],
    [
      'not',
      { not: { required: ['a'] } },
      { a: 1 },
      ['<nil>: Invalid value: "": "field" must not validate the schema (not)'],
    ],
    ['not, satisfied', { not: { required: ['a'] } }, {}, []],
    [
      'some of allOf',
      { allOf: [{ minimum: 1 }, { maximum: 3 }] },
      5,
      [
        '<nil>: Invalid value: "": "field" must validate all the schemas (allOf)',
        'field: Invalid value: 5: field in body should be less than or equal to 3',
      ],
    ],
  ]);
});

suite('strings', () => {
  table([
    [
      'pattern',
      { type: 'string', pattern: '^/' },
      'xyz',
      [`field: Invalid value: "xyz": field in body should match '^/'`],
    ],
    [
      'an invalid pattern (validation_test.go, "invalid regex")',
      { type: 'string', pattern: '+' },
      'foo',
      [
        'field: Invalid value: "foo": field in body should match \'+, but pattern is invalid: error parsing regexp: missing argument to repetition operator: `+`\'',
      ],
    ],
    [
      'minLength',
      { type: 'string', minLength: 1 },
      '',
      ['field: Invalid value: "": field in body should be at least 1 chars long'],
    ],
    ['maxLength', { type: 'string', maxLength: 2 }, 'abc', ['field: Too long: may not be more than 2 bytes']],
    [
      'maxLength 1',
      { type: 'string', maxLength: 1 },
      'abc',
      ['field: Too long: may not be more than 1 byte'],
    ],
    ['lengths count code points', { type: 'string', minLength: 2, maxLength: 2 }, '😀😀', []],
    [
      'the first failure only',
      { type: 'string', minLength: 5, pattern: '^x' },
      'a',
      ['field: Invalid value: "a": field in body should be at least 5 chars long'],
    ],
    [
      'a format',
      { type: 'string', format: 'date-time' },
      'now',
      ['field: Invalid value: "now": field in body must be of type date-time: "now"'],
    ],
    [
      'a format without a type: a string of it',
      { format: 'byte' },
      'AQI',
      ['field: Invalid value: "AQI": field in body must be of type byte: "AQI"'],
    ],
    ['or a list', { format: 'byte' }, [1, 2], []],
    [
      'whose items have a type',
      { format: 'byte', minItems: 1, items: { type: 'integer', maximum: 255 } },
      [1, 256],
      ['field[1]: Invalid value: 256: field[1] in body should be less than or equal to 255'],
    ],
    ...(
      [
        [7, 'int64'],
        [1.5, 'double'],
        [true, ''],
        [{}, ''],
      ] as const
    ).map(([value, found]): Case => [
      `but not ${JSON.stringify(value)}`,
      { format: 'byte' },
      value,
      [`field: Invalid value: "${found}": field in body must be of type byte: "${found}"`],
    ]),
    ['an unknown format', { type: 'string', format: 'shoe-size' }, 'x', []],
    [
      'quoting as in Go',
      { type: 'string', pattern: '^$' },
      'a"b\n\x01é\u200b',
      [String.raw`field: Invalid value: "a\"b\n\x01é\u200b": field in body should match '^$'`],
    ],
  ]);
});

suite('numbers', () => {
  const at = (value: string, words: string): string[] => [
    `field: Invalid value: ${value}: field in body should be ${words}`,
  ];
  table([
    ['minimum', { type: 'integer', minimum: 1 }, 0, at('0', 'greater than or equal to 1')],
    ['exclusive minimum', { minimum: 1, exclusiveMinimum: true }, 1, at('1', 'greater than 1')],
    ['maximum', { type: 'number', maximum: 1.5 }, 1.6, at('1.6', 'less than or equal to 1.5')],
    ['exclusive maximum', { maximum: 3, exclusiveMaximum: true }, 3, at('3', 'less than 3')],
    ['multipleOf', { multipleOf: 3 }, 7, at('7', 'a multiple of 3')],
    ['multipleOf of fractions', { multipleOf: 0.1 }, 0.3, []],
    ['not a multiple of a fraction', { multipleOf: 0.1 }, 0.35, at('0.35', 'a multiple of 0.1')],
    ['floats as Go prints them', { maximum: 1e-7 }, 0.00001, at('1e-05', 'less than or equal to 1e-07')],
    ['bigint bounds', { type: 'integer', maximum: 10 }, 11n, at('11', 'less than or equal to 10')],
    // kubernetes/kubernetes issue 136091: int32 is not enforced in custom resources.
    ['int32 is not enforced', { type: 'integer', format: 'int32' }, 3_000_000_000, []],
  ]);
  test('int32, int64, uint32 and float on demand', () => {
    const check = (format: string, value: unknown): string[] =>
      lines(
        compileSchema(
          { type: 'object', properties: { n: { type: 'number', format } } },
          { numericFormats: true },
        ).validate({
          n: value,
        }),
      );
    const refused = 'n: Invalid value: 3000000000: n in body must be of type integer with format int32';
    assert.deepEqual(check('int32', 3_000_000_000), [refused]);
    assert.deepEqual(check('int32', -(2 ** 31)), []);
    assert.equal(check('uint32', -1).length, 1);
    assert.equal(check('int64', 2n ** 63n).length, 1);
    assert.equal(check('float', 3.5e38).length, 1);
  });
});

suite('enum, lists and fields', () => {
  table([
    [
      'enum beside a wrong type (validation_test.go, "enum")',
      { type: 'integer', enum: [1, 2] },
      'x',
      [
        'field: Invalid value: "string": field in body must be of type integer: "string"',
        'field: Unsupported value: "x": supported values: "1", "2"',
      ],
    ],
    [
      'enum of strings',
      { type: 'string', enum: ['a', 'b'] },
      true,
      [
        'field: Invalid value: "boolean": field in body must be of type string: "boolean"',
        'field: Unsupported value: true: supported values: "a", "b"',
      ],
    ],
    ['enum with null', { type: 'string', nullable: true, enum: ['a', null] }, null, []],
    [
      'null outside of an enum',
      { type: 'string', nullable: true, enum: ['a'] },
      null,
      ['field: Unsupported value: null: supported values: "a"'],
    ],
    [
      'required (validation_test.go, "required field")',
      { type: 'object', required: ['nested'], properties: { nested: {} } },
      {},
      ['field.nested: Required value'],
    ],
    [
      'maxProperties',
      { type: 'object', maxProperties: 2 },
      { a: true, b: true, c: true },
      ['field: Too many: 3: must have at most 2 items'],
    ],
    [
      'minProperties',
      { type: 'object', minProperties: 1 },
      {},
      ['field: Invalid value: 0: field in body should have at least 1 properties'],
    ],
    [
      'maxItems',
      { type: 'array', maxItems: 2 },
      ['a', 'b', 'c'],
      ['field: Too many: 3: must have at most 2 items'],
    ],
    [
      'minItems',
      { type: 'array', minItems: 1 },
      [],
      ['field: Invalid value: 0: field in body should have at least 1 items'],
    ],
    [
      'items by their position',
      { type: 'array', items: { type: 'object', properties: { path: { type: 'string' } } } },
      [{}, { path: 1 }],
      ['field[1].path: Invalid value: "integer": field[1].path in body must be of type string: "integer"'],
    ],
    [
      'additionalProperties',
      { type: 'object', additionalProperties: { type: 'string' } },
      { constructor: 1, b: 'x' },
      [
        'field.constructor: Invalid value: "integer": field.constructor in body must be of type string: "integer"',
      ],
    ],
    [
      'additionalProperties: false',
      { type: 'object', properties: { a: {} }, additionalProperties: false },
      { a: 1, b: 1 },
      ['field: Invalid value: "b": field.b in body is a forbidden property'],
    ],
  ]);
  test('the root has no name', () => {
    const schema = compileSchema({ type: 'object', required: ['spec'] }, { strict: false });
    assert.deepEqual(lines(schema.validate({})), ['spec: Required value']);
    assert.deepEqual(lines(schema.validate([])), [
      '<nil>: Invalid value: "array":  in body must be of type object: "array"',
    ]);
  });
  test('of a million faults, a thousand are reported', () => {
    const schema = compileSchema({ properties: { l: { items: { type: 'string' } } } }, { strict: false });
    assert.equal(schema.validate({ l: Array.from({ length: 100_000 }, (_, index) => index) }).length, 1_000);
  });
});

suite('updates forgive what they do not change (validate/ratcheting.go)', () => {
  const schema = compileSchema({
    type: 'object',
    properties: {
      spec: {
        type: 'object',
        properties: {
          a: { type: 'string', maxLength: 1 },
          b: { type: 'string', maxLength: 1 },
          byName: {
            type: 'array',
            'x-kubernetes-list-type': 'map',
            'x-kubernetes-list-map-keys': ['name'],
            items: {
              type: 'object',
              required: ['name'],
              properties: { name: { type: 'string' }, v: { type: 'string', maxLength: 1 } },
            },
          },
          atomic: { type: 'array', items: { type: 'string', maxLength: 1 } },
        },
      },
    },
  });
  const check = (now: object, before: object): string[] =>
    lines(schema.validate({ spec: now }, { spec: before }));
  const tooLong = (field: string): string => `spec.${field}: Too long: may not be more than 1 byte`;
  test('fields by name', () => {
    assert.deepEqual(check({ a: 'xx', b: 'yy' }, { a: 'xx', b: 'y' }), [tooLong('b')]);
  });
  test('items of a list map by their keys, wherever they stand', () => {
    const before = {
      byName: [
        { name: 'one', v: 'xx' },
        { name: 'two', v: 'y' },
      ],
    };
    const now = {
      byName: [
        { name: 'two', v: 'yy' },
        { name: 'one', v: 'xx' },
      ],
    };
    assert.deepEqual(check(now, before), [tooLong('byName[0].v')]);
  });
  test('items of an atomic list: only the whole list', () => {
    assert.deepEqual(check({ atomic: ['xx'] }, { atomic: ['xx'] }), []);
    assert.deepEqual(check({ atomic: ['xx', 'y'] }, { atomic: ['xx'] }), [tooLong('atomic[0]')]);
  });
});
