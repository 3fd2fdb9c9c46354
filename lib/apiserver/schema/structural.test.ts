/**
 * Which schemas are refused, in which words: apiextensions-apiserver `pkg/apiserver/schema/validation.go`,
 * `complete.go`, `defaulting/validation.go`, `pkg/apis/apiextensions/validation/validation.go`.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { compileSchema } from './compiled-schema.ts';
import { refusals, resource } from './schema.fixture.ts';

type Case = readonly [name: string, schema: unknown, expected: readonly string[]];

function table(cases: readonly Case[]): void {
  for (const [name, schema, expected] of cases) {
    test(name, () => assert.deepEqual(refusals(schema).sort(), [...expected].sort()));
  }
}

const inSpec = (spec: object): object => resource({ type: 'object', properties: spec });

suite('types have to be given', () => {
  table([
    [
      'everywhere',
      resource({ type: 'object', properties: { a: { type: 'array', items: { type: 'string' } } } }),
      [],
    ],
    ['at the root', { properties: {} }, ['~.type: Required value: must not be empty at the root']],
    [
      'object at the root',
      { type: 'array', items: { type: 'string' } },
      ['~.type: Invalid value: "array": must be object at the root'],
    ],
    [
      'for fields',
      resource({ properties: { a: {} } }),
      [
        '~.properties[spec].type: Required value: must not be empty for specified object fields',
        '~.properties[spec].properties[a].type: Required value: must not be empty for specified object fields',
      ],
    ],
    [
      'for items',
      inSpec({ l: { type: 'array', items: {} } }),
      [
        '~.properties[spec].properties[l].items.type: Required value: must not be empty for specified array items',
      ],
    ],
    [
      'arrays have items',
      inSpec({ l: { type: 'array' } }),
      ['~.properties[spec].properties[l].items: Required value: must be specified'],
    ],
    ['not needed for what is preserved', inSpec({ a: { 'x-kubernetes-preserve-unknown-fields': true } }), []],
    ['not needed for int-or-string', inSpec({ a: { 'x-kubernetes-int-or-string': true } }), []],
    [
      'an unknown one',
      inSpec({ a: { type: 'text' } }),
      [
        '~.properties[spec].properties[a].type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string"',
      ],
    ],
    [
      'null is none',
      inSpec({ a: { type: 'null' } }),
      [
        '~.properties[spec].properties[a].type: Forbidden: type cannot be set to null, use nullable as an alternative',
      ],
    ],
  ]);
});

suite('allOf, anyOf, oneOf and not only narrow', () => {
  const at = '~.properties[spec].properties[a]';
  table([
    [
      'no types and descriptions inside',
      inSpec({
        a: { type: 'object', anyOf: [{ type: 'object', description: 'x', nullable: true, default: {} }] },
      }),
      [
        `${at}.anyOf[0].type: Forbidden: must be empty to be structural`,
        `${at}.anyOf[0].description: Forbidden: must be empty to be structural`,
        `${at}.anyOf[0].nullable: Forbidden: must be false to be structural`,
        `${at}.anyOf[0].default: Forbidden: must be undefined to be structural`,
      ],
    ],
    [
      'int-or-string may repeat its types',
      inSpec({
        a: { 'x-kubernetes-int-or-string': true, anyOf: [{ type: 'integer' }, { type: 'string' }] },
        b: {
          'x-kubernetes-int-or-string': true,
          allOf: [{ anyOf: [{ type: 'integer' }, { type: 'string' }] }],
        },
      }),
      [],
    ],
    [
      'in no other order',
      inSpec({ a: { 'x-kubernetes-int-or-string': true, anyOf: [{ type: 'string' }, { type: 'integer' }] } }),
      [
        `${at}.anyOf[0].type: Forbidden: must be empty to be structural`,
        `${at}.anyOf[1].type: Forbidden: must be empty to be structural`,
      ],
    ],
    [
      'what is named inside is specified outside',
      { type: 'object', properties: { x: { type: 'string' } }, not: { properties: { y: { minLength: 1 } } } },
      ['~.properties[y]: Required value: because it is defined in ~.not.properties[y]'],
    ],
    [
      'items as well',
      {
        type: 'object',
        properties: { a: { type: 'object' } },
        allOf: [{ properties: { a: { items: { minLength: 1 } } } }],
      },
      ['~.properties[a].items: Required value: because it is defined in ~.allOf[0].properties[a].items'],
    ],
    [
      'asked for at the root only, as in Kubernetes',
      inSpec({ a: { type: 'object', not: { required: ['y'], properties: { y: {} } } } }),
      [],
    ],
    [
      'extensions stand outside',
      inSpec({
        a: {
          type: 'array',
          items: { type: 'string' },
          oneOf: [{ 'x-kubernetes-list-type': 'set', 'x-kubernetes-validations': [{ rule: 'true' }] }],
        },
      }),
      [
        `${at}.oneOf[0].type: Required value: must be array if x-kubernetes-list-type is specified`,
        `${at}.oneOf[0].x-kubernetes-list-type: Forbidden: must be undefined to be structural`,
        `${at}.oneOf[0].x-kubernetes-validations: Forbidden: must be empty to be structural`,
      ],
    ],
    [
      'metadata is not narrowed inside',
      {
        type: 'object',
        allOf: [{ properties: { metadata: { required: ['labels'] } } }],
        properties: { metadata: { type: 'object' } },
      },
      ['~.allOf[0].properties[metadata]: Forbidden: must not be specified in a nested context'],
    ],
  ]);
});

suite('keywords that are not supported', () => {
  const at = '~.properties[spec]';
  table(
    (
      [
        ['id', { id: 'x' }],
        ['$ref', { $ref: '#/x' }],
        ['patternProperties', { patternProperties: { a: { type: 'string' } } }],
        ['definitions', { definitions: { a: { type: 'string' } } }],
        ['dependencies', { dependencies: { a: ['b'] } }],
        ['additionalItems', { additionalItems: true }],
      ] as const
    ).map(([name, keyword]) => [
      name,
      resource({ type: 'object', ...keyword }),
      [`${at}.${name}: Forbidden: ${name} is not supported`],
    ]),
  );
  table([
    [
      'a list of items',
      resource({ type: 'array', items: [{ type: 'string' }] }),
      [
        `${at}.items: Required value: must be specified`,
        `${at}.items: Forbidden: items must be a schema object and not an array`,
      ],
    ],
    [
      'uniqueItems',
      resource({ type: 'array', items: { type: 'string' }, uniqueItems: true }),
      [
        `${at}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic`,
      ],
    ],
    [
      'nullable at the root',
      { type: 'object', nullable: true },
      ['~.nullable: Forbidden: nullable cannot be true at the root'],
    ],
    [
      'additionalProperties at the root',
      { type: 'object', additionalProperties: { type: 'string' } },
      ['~.additionalProperties: Forbidden: must not be used at the root'],
    ],
    [
      'additionalProperties beside properties',
      resource({
        type: 'object',
        properties: { a: { type: 'string' } },
        additionalProperties: { type: 'string' },
      }),
      [`${at}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive`],
    ],
    [
      'a pattern that Go cannot compile',
      resource({ type: 'string', pattern: '(?=a)' }),
      [
        `${at}.pattern: Invalid value: "(?=a)": must be a valid regular expression, but isn't: error parsing regexp: invalid or unsupported Perl syntax: \`(?=\``,
      ],
    ],
    [
      'metadata beyond names',
      {
        type: 'object',
        properties: { metadata: { type: 'object', properties: { labels: { type: 'object' } } } },
      },
      [
        '~.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified',
      ],
    ],
    [
      'kind and apiVersion of another type',
      { type: 'object', properties: { kind: { type: 'integer' }, apiVersion: { type: 'object' } } },
      [
        '~.properties[apiVersion].type: Invalid value: "object": must be string',
        '~.properties[kind].type: Invalid value: "integer": must be string',
      ],
    ],
    [
      'the name of an object narrowed',
      {
        type: 'object',
        properties: { metadata: { type: 'object', properties: { name: { type: 'string', maxLength: 9 } } } },
      },
      [],
    ],
  ]);
});

suite('x-kubernetes-*', () => {
  const at = '~.properties[spec].properties[a]';
  const list = (
    extra: object,
    items: object = { type: 'object', properties: { k: { type: 'string' } } },
  ): object => inSpec({ a: { type: 'array', items, ...extra } });
  table([
    [
      'int-or-string excludes others',
      inSpec({ a: { 'x-kubernetes-int-or-string': true, 'x-kubernetes-preserve-unknown-fields': true } }),
      [
        `${at}.x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true`,
      ],
    ],
    [
      'preserving is not switched off',
      inSpec({ a: { type: 'object', 'x-kubernetes-preserve-unknown-fields': false } }),
      [`${at}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined`],
    ],
    [
      'an embedded resource is an object with fields',
      inSpec({
        a: { type: 'object', 'x-kubernetes-embedded-resource': true },
        b: { 'x-kubernetes-embedded-resource': true },
      }),
      [
        `${at}.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields`,
        '~.properties[spec].properties[b].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields',
        '~.properties[spec].properties[b].type: Required value: must be object if x-kubernetes-embedded-resource is true',
      ],
    ],
    [
      'keys of a list map are required or have a default',
      list({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k'] }),
      [
        `${at}.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property`,
      ],
    ],
    [
      'required keys',
      list(
        { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k'] },
        { type: 'object', required: ['k'], properties: { k: { type: 'string' } } },
      ),
      [],
    ],
    [
      'keys with a default',
      list(
        { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k'] },
        { type: 'object', properties: { k: { type: 'string', default: '' } } },
      ),
      [],
    ],
    [
      'keys exist, once, and are scalars',
      list(
        { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k', 'k', 'x', 'o'] },
        {
          type: 'object',
          required: ['k', 'o'],
          properties: { k: { type: 'string', nullable: true }, o: { type: 'object' } },
        },
      ),
      [
        `${at}.items.properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable`,
        `${at}.items.properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable`,
        `${at}.items.properties[o].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map`,
        `${at}.x-kubernetes-list-map-keys: Invalid value: ["k","k","x","o"]: entries must all be names of item properties`,
        `${at}.x-kubernetes-list-map-keys: Invalid value: ["k","k","x","o"]: must not contain duplicate entries`,
      ],
    ],
    [
      'a list map needs keys',
      list({ 'x-kubernetes-list-type': 'map' }),
      [
        `${at}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map`,
      ],
    ],
    [
      'keys need a list map',
      list({ 'x-kubernetes-list-map-keys': ['k'] }),
      [
        `${at}.x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty`,
      ],
    ],
    [
      'items of a set are atomic and not null',
      list({ 'x-kubernetes-list-type': 'set' }, { type: 'object', nullable: true }),
      [
        `${at}.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set`,
        `${at}.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set`,
      ],
    ],
    [
      'list and map types',
      inSpec({ a: { type: 'object', 'x-kubernetes-list-type': 'bag', 'x-kubernetes-map-type': 'tree' } }),
      [
        `${at}.type: Invalid value: "object": must be array if x-kubernetes-list-type is specified`,
        `${at}.x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map"`,
        `${at}.x-kubernetes-map-type: Unsupported value: "tree": supported values: "atomic", "granular"`,
      ],
    ],
  ]);
});

suite('defaults', () => {
  const at = '~.properties[spec].properties[a]';
  table([
    ['are valid', inSpec({ a: { type: 'integer', default: 3, maximum: 3 } }), []],
    [
      'or are refused',
      inSpec({ a: { type: 'integer', default: 'x' } }),
      [`${at}.default: Invalid value: "string":  in body must be of type integer: "string"`],
    ],
    [
      'in their parts',
      inSpec({ a: { type: 'object', default: { b: 1 }, properties: { b: { type: 'string' } } } }),
      [`${at}.default.b: Invalid value: "integer": b in body must be of type string: "integer"`],
    ],
    [
      'hold nothing unknown',
      inSpec({ a: { type: 'object', default: { b: 1 }, properties: {} } }),
      [`${at}.default: Invalid value: {"b":1}: must not have unknown fields`],
    ],
    [
      'not for the metadata of the resource',
      { type: 'object', properties: { kind: { type: 'string', default: 'A' } } },
      ['~.properties[kind].default: Forbidden: must not be set in top-level kind'],
    ],
  ]);
});

suite('invalid schemas', () => {
  table([
    ['a number', 3, ['~: Invalid value: "integer": must be an object']],
    ['null', null, ['~: Invalid value: "null": must be an object']],
    [
      'keywords of the wrong type',
      { type: 7, properties: [], required: 'a', maxLength: 1.5, 'x-kubernetes-validations': [1] },
      [
        '~.maxLength: Invalid value: "number": must be an integer',
        '~.properties: Invalid value: "array": must be an object',
        '~.required: Invalid value: "string": must be an array',
        '~.type: Invalid value: "integer": must be a string',
        '~.x-kubernetes-validations[0]: Invalid value: "integer": must be an object',
      ],
    ],
  ]);
  test('keywords that are null count as absent', () => {
    const schema = {
      type: 'object',
      properties: { a: { type: 'string', enum: null, items: null, default: null } },
      required: null,
    };
    assert.deepEqual(refusals(schema), []);
  });
  test('a schema without end is refused, not followed', () => {
    let deep: object = { type: 'string' };
    for (let level = 0; level < 5_000; level++) deep = { type: 'object', properties: { a: deep } };
    assert.equal(refusals(deep).length, 1);
  });
  test('the path is that of the caller', () => {
    const path = 'spec.versions[1].schema.openAPIV3Schema';
    assert.deepEqual(refusals({}, { path }), [`${path}.type: Required value: must not be empty at the root`]);
  });
  test('fields with the names of methods', () => {
    const schema = JSON.parse(
      '{"type":"object","properties":{"constructor":{"type":"string"},"__proto__":{"type":"integer"}},"__proto__":{"type":"array"}}',
    ) as object;
    const compiled = compileSchema(schema);
    const object = JSON.parse('{"constructor":1,"__proto__":"x","toString":2}') as object;
    assert.deepEqual(compiled.prune(object), ['toString']);
    assert.equal(compiled.validate(object).length, 2);
  });
});
