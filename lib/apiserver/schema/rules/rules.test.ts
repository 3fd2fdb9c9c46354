/**
 * Rules as apiextensions-apiserver compiles and runs them: `pkg/apiserver/schema/cel/validation_test.go`,
 * `compilation_test.go`, `pkg/apis/apiextensions/validation/validation.go`, and the documentation of
 * "Validation rules" and "Transition rules" in the Kubernetes task "Extend the Kubernetes API with CustomResourceDefinitions".
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { compileSchema } from '../compiled-schema.ts';
import { lines, refusals, resource, ruleProblems } from '../schema.fixture.ts';
import { failed, integer, object, rule, text } from './rules.fixture.ts';

suite('the values that a rule sees', () => {
  const properties = {
    replicas: integer,
    max: integer,
    ratio: { type: 'number' },
    name: text,
    port: { 'x-kubernetes-int-or-string': true },
    labels: { type: 'object', additionalProperties: text, maxProperties: 5 },
    list: { type: 'array', items: text, maxItems: 5 },
    nullable: { ...text, nullable: true },
    nulls: { type: 'array', items: { ...text, nullable: true }, maxItems: 5 },
    namespace: text,
    'a-b.c/d__e': integer,
    when: { type: 'string', format: 'date-time' },
    day: { type: 'string', format: 'date' },
    span: { type: 'string', format: 'duration' },
    bytes: { type: 'string', format: 'byte' },
    free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true, properties: { known: text } },
    embedded: {
      type: 'object',
      'x-kubernetes-embedded-resource': true,
      'x-kubernetes-preserve-unknown-fields': true,
    },
    deep: object({ x: object({ y: integer }) }),
  };
  const cases: readonly (readonly [source: string, spec: object, ok: boolean])[] = [
    ['self.replicas <= self.max', { replicas: 2, max: 3 }, true],
    ['self.replicas <= self.max', { replicas: 4, max: 3 }, false],
    ['self.ratio > 0 && self.ratio == 1.5', { ratio: 1.5 }, true],
    ['self.ratio * 2.0 == 4.0', { ratio: 2 }, true],
    ["has(self.name) && self.name == 'x'", { name: 'x' }, true],
    ['has(self.name)', {}, false],
    ['has(self.deep.x.y)', { deep: { x: {} } }, false],
    ['has(self.list) && self.list.size() == 2', { list: ['a', 'b'] }, true],
    ['type(self.port) == int ? self.port < 100 : self.port.startsWith("h")', { port: 80 }, true],
    ['type(self.port) == int ? self.port < 100 : self.port.startsWith("h")', { port: 'http' }, true],
    ['type(self.port) == int ? self.port < 100 : self.port.startsWith("h")', { port: 'ssh' }, false],
    ["'app' in self.labels && self.labels['app'] == 'x'", { labels: { app: 'x' } }, true],
    ["self.labels.all(k, k.startsWith('a') && self.labels[k] != '')", { labels: { a: '1', ab: '2' } }, true],
    ["'constructor' in self.labels", { labels: {} }, false],
    ["self.list.exists(x, x == 'a')", { list: ['b'] }, false],
    ["'a' in self.list", { list: ['a'] }, true],
    ['!has(self.nullable)', { nullable: null }, true],
    ['type(self.nulls[0]) == null_type', { nulls: [null] }, true],
    ["self.nullable == 'x'", { nullable: 'x' }, true],
    ["self.__namespace__ == 'x'", { namespace: 'x' }, true],
    ['self.a__dash__b__dot__c__slash__d__underscores__e == 3', { 'a-b.c/d__e': 3 }, true],
    [
      "self.when < timestamp('2024-01-01T00:00:00Z') && self.when.getFullYear() == 2023",
      { when: '2023-06-01T00:00:00Z' },
      true,
    ],
    ["self.day == timestamp('2023-06-01T00:00:00Z')", { day: '2023-06-01' }, true],
    ["self.span > duration('1h')", { span: '90m' }, true],
    ["self.bytes == b'abc'", { bytes: 'YWJj' }, true],
    ["self.free.known == 'x'", { free: { known: 'x', other: 1 } }, true],
    [
      "self.embedded.kind == 'Pod' && self.embedded.metadata.name == 'a'",
      { embedded: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' } } },
      true,
    ],
    ['self.?deep.?x.?y.orValue(7) == 7', {}, true],
    ['self.?deep.x.y == optional.of(7) && self.deep.?x.?y.hasValue()', { deep: { x: { y: 7 } } }, true],
  ];
  for (const [source, spec, ok] of cases) {
    test(`${source} with ${JSON.stringify(spec)}`, () => {
      assert.deepEqual(ruleProblems(properties, [source], spec), ok ? [] : [failed(source)]);
    });
  }
  test('the metadata of a resource', () => {
    const schema = compileSchema({
      type: 'object',
      ...rule("self.metadata.name.startsWith('a') && self.kind == 'K'"),
    });
    assert.deepEqual(schema.validate({ kind: 'K', metadata: { name: 'ab' } }), []);
    assert.equal(schema.validate({ kind: 'K', metadata: { name: 'b' } }).length, 1);
  });
  test('a field that is not set is an error, unless it is asked for', () => {
    assert.deepEqual(ruleProblems(properties, ['self.replicas < 3'], {}), [
      'spec: Invalid value: "object": no such key: replicas evaluating rule: self.replicas < 3',
    ]);
    assert.deepEqual(ruleProblems(properties, ['self.port < 5'], { port: 'a' }), [
      'spec: Invalid value: "object": \'no such overload\': call arguments did not match a supported operator, function or macro signature for rule: self.port < 5',
    ]);
  });
  test('rules of scalars and items, with the type of the value', () => {
    const schema = compileSchema(
      resource(
        object({
          names: { type: 'array', maxItems: 3, items: { ...text, ...rule("self != 'x'") } },
          n: { ...integer, ...rule('self > 1') },
        }),
      ),
    );
    assert.deepEqual(lines(schema.validate({ spec: { names: ['a', 'x'], n: 1 } })), [
      failed("self != 'x'", 'spec.names[1]', '"x": '),
      failed('self > 1', 'spec.n', '1: '),
    ]);
  });
  test('null is not looked at', () => {
    const schema = compileSchema(
      resource(object({ n: { ...integer, nullable: true, ...rule('self > 1') } })),
    );
    assert.deepEqual(schema.validate({ spec: { n: null } }), []);
  });
});

suite('rules that do not compile', () => {
  const at = '~.properties[spec].x-kubernetes-validations[0].rule: Invalid value: ';
  const cases: readonly (readonly [source: string, words: string])[] = [
    ['self.nosuch == 1', "ERROR: <input>:1:5: undefined field 'nosuch'\n | self.nosuch == 1\n | ....^"],
    ['has(self.nosuch)', "ERROR: <input>:1:9: undefined field 'nosuch'\n | has(self.nosuch)\n | ........^"],
    ['self.namespace == "x"', "ERROR: <input>:1:5: undefined field 'namespace'\n"],
    [
      'other == 1',
      "ERROR: <input>:1:1: undeclared reference to 'other' (in container '')\n | other == 1\n | ^",
    ],
    [
      'self.name == 1',
      "ERROR: <input>:1:11: found no matching overload for '_==_' applied to '(string, int)'\n",
    ],
    ['self.name.foo()', "ERROR: <input>:1:14: undeclared reference to 'foo' (in container '')\n"],
    [
      'self.name.startsWith(1)',
      "ERROR: <input>:1:21: found no matching overload for 'startsWith' applied to 'string.(int)'\n",
    ],
    [
      'self.nullable != null',
      "ERROR: <input>:1:15: found no matching overload for '_!=_' applied to '(string, null)'\n",
    ],
    ['!self.name', "ERROR: <input>:1:1: found no matching overload for '!_' applied to '(string)'\n"],
    ['self.name ==', 'ERROR: <input>:1:13: Syntax error:'],
    [
      'authorizer.path("/").check("get").allowed()',
      "ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')\n",
    ],
    [
      "self.name.matches('(?=a)')",
      'ERROR: <input>:1:19: invalid matches argument: error parsing regexp: invalid or unsupported Perl syntax',
    ],
    ["['a', 1] == self.name", 'ERROR: '],
  ];
  for (const [source, words] of cases) {
    test(source, () => {
      const schema = resource(
        object({ name: text, namespace: text, nullable: { ...text, nullable: true } }, rule(source)),
      );
      const [problem = '', ...others] = refusals(schema);
      assert.deepEqual(others, []);
      assert.ok(problem.startsWith(at), problem);
      assert.ok(problem.includes(`: compilation failed: ${words}`), problem);
    });
  }
  const refused = (extra: object): string[] => refusals(resource(object({ name: text, n: integer }, extra)));
  const place = '~.properties[spec].x-kubernetes-validations[0]';
  test('a value of another type', () => {
    assert.deepEqual(refused(rule('self.name')), [
      `${place}.rule: Invalid value: {"rule":"self.name"}: cel expression must evaluate to a bool`,
    ]);
    assert.match(
      refused(rule('true', { messageExpression: '1' }))[0] ?? '',
      /messageExpression: .*: messageExpression must evaluate to a string$/,
    );
    assert.match(
      refused(rule('true', { messageExpression: 'self.x' }))[0] ?? '',
      /: messageExpression compilation failed: ERROR/,
    );
  });
  test('their text', () => {
    assert.deepEqual(refused(rule(' ')), [`${place}.rule: Required value: rule is not specified`]);
    assert.deepEqual(refused(rule('true', { message: ' ' })), [
      `${place}.message: Invalid value: " ": must be non-empty if specified`,
    ]);
    assert.deepEqual(refused(rule('true', { message: 'a\nb' })), [
      `${place}.message: Invalid value: "a\\nb": must not contain line breaks`,
    ]);
    assert.deepEqual(refused(rule('true\n|| false')), [
      `${place}.message: Required value: message must be specified if rule contains line breaks`,
    ]);
    assert.deepEqual(refused(rule('true', { messageExpression: ' ' })), [
      `${place}.messageExpression: Required value: messageExpression must be non-empty if specified`,
    ]);
    assert.deepEqual(refused(rule('true', { reason: 'Bad' })), [
      `${place}.reason: Unsupported value: "Bad": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"`,
    ]);
    for (const fieldPath of ['.nosuch', 'name', '.name.x', "['name", '.n[0]']) {
      assert.deepEqual(refused(rule('true', { fieldPath })), [
        `${place}.fieldPath: Invalid value: ${JSON.stringify(fieldPath)}: must be a valid path`,
      ]);
    }
  });
  test('oldSelf where nothing old can be found', () => {
    const schema = resource(
      object({ l: { type: 'array', maxItems: 2, items: { ...text, ...rule('self == oldSelf') } } }),
    );
    assert.deepEqual(refusals(schema), [
      '~.properties[spec].properties[l].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within ~.properties[spec].properties[l]',
    ]);
    assert.deepEqual(refused(rule('true', { optionalOldSelf: true })), [
      `${place}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule`,
    ]);
  });
  test('on an object whose fields may be anything', () => {
    assert.deepEqual(refusals(resource({ type: 'object', additionalProperties: true, ...rule('true') })), []);
  });
  test('on a schema that rules cannot see', () => {
    assert.match(
      refusals(resource({ 'x-kubernetes-preserve-unknown-fields': true, ...rule('true') }))[0] ?? '',
      /Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations$/,
    );
  });
});

suite('messages and reasons', () => {
  const spec = { n: 5, labels: { a: 'x' } };
  const properties = { n: integer, labels: { type: 'object', additionalProperties: text, maxProperties: 3 } };
  const run = (extra: object): string[] => ruleProblems(properties, [{ rule: 'self.n < 3', ...extra }], spec);
  test('message', () => {
    assert.deepEqual(run({ message: ' n is too big ' }), ['spec: Invalid value: n is too big']);
  });
  test('messageExpression goes before message, when it gives a usable text', () => {
    assert.deepEqual(run({ message: 'm', messageExpression: "'n is %d'.format([self.n])" }), [
      'spec: Invalid value: n is 5',
    ]);
    for (const messageExpression of [
      "''",
      String.raw`'a\nb'`,
      'string(self.n / 0)',
      "'x'.replace('', 'yyyyyyyyyy').replace('', '" + 'z'.repeat(600) + "')",
    ]) {
      assert.deepEqual(run({ message: 'm', messageExpression }), ['spec: Invalid value: m']);
    }
  });
  test('reasons', () => {
    assert.deepEqual(run({ reason: 'FieldValueForbidden', message: 'm' }), ['spec: Forbidden: m']);
    assert.deepEqual(run({ reason: 'FieldValueRequired', message: 'm' }), ['spec: Required value: m']);
    assert.deepEqual(run({ reason: 'FieldValueDuplicate', message: 'm' }), ['spec: Duplicate value']);
    assert.deepEqual(run({ reason: 'FieldValueInvalid', message: 'm' }), ['spec: Invalid value: m']);
  });
  test('fieldPath', () => {
    assert.deepEqual(run({ fieldPath: '.n', message: 'm' }), ['spec.n: Invalid value: m']);
    assert.deepEqual(run({ fieldPath: ".labels['a.b']", message: 'm' }), [
      'spec.labels[a.b]: Invalid value: m',
    ]);
  });
});

test('rules wait until the values are what they rely on', () => {
  const schema = compileSchema(resource(object({ n: integer }, { required: ['n'], ...rule('self.n > 0') })));
  assert.deepEqual(lines(schema.validate({ spec: {} })), [
    'spec.n: Required value',
    '<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation',
  ]);
});

suite('rules of published resources', () => {
  const list = (items: object, maxItems: number): object => ({ type: 'array', items, maxItems });
  const cases: readonly (readonly [
    name: string,
    schema: object,
    rule: string,
    valid: unknown,
    invalid: unknown,
  ])[] = [
    [
      'labels without wildcards (Istio)',
      { type: 'object', additionalProperties: { type: 'string' }, maxProperties: 4_096 },
      "self.all(key, !key.contains('*'))",
      { app: '*' },
      { 'a*': 'x' },
    ],
    [
      'unique entries (Cluster API)',
      list({ type: 'string', minLength: 1, maxLength: 256 }, 32),
      'self.all(x, self.exists_one(y, x == y))',
      ['a', 'b'],
      ['a', 'a'],
    ],
    [
      'names that differ by more than case',
      list({ type: 'object', properties: { name: { type: 'string', maxLength: 63 } } }, 25),
      'self.all(c1, !has(c1.name) || self.filter(c2, has(c2.name) && c2.name.lowerAscii() == c1.name.lowerAscii()).size() == 1)',
      [{ name: 'a' }, { name: 'b' }, {}],
      [{ name: 'a' }, { name: 'A' }],
    ],
    [
      'as many addresses as replicas (Kube-OVN)',
      {
        type: 'object',
        properties: {
          ips: { type: 'array', items: { type: 'string' } },
          replicas: { type: 'integer', default: 1 },
        },
      },
      '!has(self.ips) || size(self.ips) == 0 || size(self.ips) >= self.replicas',
      { ips: ['a'], replicas: 1 },
      { ips: ['a'], replicas: 2 },
    ],
    [
      'one of (Gateway API)',
      {
        type: 'object',
        properties: {
          type: { type: 'string', enum: ['A', 'B'] },
          a: { type: 'object' },
          b: { type: 'object' },
        },
      },
      "!(has(self.a) && self.type != 'A') && !(!has(self.a) && self.type == 'A')",
      { type: 'A', a: {} },
      { type: 'B', a: {} },
    ],
    [
      'unique pairs (Gateway API)',
      list(
        {
          type: 'object',
          properties: { port: { type: 'integer' }, name: { type: 'string', maxLength: 253 } },
        },
        16,
      ),
      'self.all(l1, self.exists_one(l2, l1.port == l2.port && (has(l1.name) && has(l2.name) ? l1.name == l2.name : !has(l1.name) && !has(l2.name))))',
      [{ port: 80 }, { port: 80, name: 'a' }],
      [{ port: 80 }, { port: 80 }],
    ],
  ];
  for (const [name, schema, source, valid, invalid] of cases) {
    test(name, () => {
      const compiled = compileSchema(resource({ ...schema, ...rule(source) }));
      assert.deepEqual(compiled.validate({ spec: valid }), []);
      assert.deepEqual(lines(compiled.validate({ spec: invalid })), [failed(source)]);
    });
  }
});
