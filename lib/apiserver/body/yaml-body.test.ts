import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { decodeYaml, maxYamlBytes } from './yaml-body.ts';

const decode = (text: string) => decodeYaml(Buffer.from(text));

test('scalars mean what they mean to an API server', () => {
  assert.deepEqual(
    decode(
      'a: yes\nb: 1:20\nc: 010\nd: 2001-01-01\ne: 0x10\nf: ~\n1: x\ng: "1"\nh: 1.5\ni: 9007199254740993\nj: off',
    ).value,
    {
      1: 'x',
      a: true,
      b: '1:20',
      c: 8,
      d: '2001-01-01',
      e: 16,
      f: null,
      g: '1',
      h: 1.5,
      i: 9_007_199_254_740_993n,
      j: false,
    },
  );
  assert.deepEqual(decode('').value, null);
  assert.deepEqual(decode('x: &a {q: 1}\nz: {<<: *a, r: 2}\nw: *a').value, {
    x: { q: 1 },
    z: { q: 1, r: 2 },
    w: { q: 1 },
  });
  assert.deepEqual(Object.entries(decode('__proto__: {a: 1}').value as object), [['__proto__', { a: 1 }]]);
});

test('the values of an alias are separate copies', () => {
  const { a, b } = decode('a: &x {q: 1}\nb: *x').value as { a: object; b: object };
  assert.deepEqual(a, b);
  assert.notEqual(a, b);
});

test('JSON is read as JSON', () => {
  assert.deepEqual(decode(' {"a":1,"a":2,"b":"yes"}'), {
    value: { a: 2, b: 'yes' },
    duplicates: ['duplicate field "a"'],
  });
  // And YAML that looks like it as YAML.
  assert.deepEqual(decode('{a: yes}').value, { a: true });
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      const text = JSON.stringify(value);
      const { value: decoded } = decode(text);
      const asNumbers = (_name: string, one: unknown): unknown =>
        typeof one === 'bigint' ? Number(one) : one;
      assert.equal(JSON.stringify(decoded, asNumbers), JSON.stringify(JSON.parse(text)));
    }),
  );
});

test('duplicate fields are named with their line', () => {
  assert.deepEqual(decode('a: 1\nspec:\n  b: 1\n  b: 2\na: 3'), {
    value: { a: 3, spec: { b: 2 } },
    duplicates: ['line 5: key "a" already set in map', 'line 4: key "b" already set in map'],
  });
});

test('text that is too large, too deep, or invalid YAML is refused', () => {
  const nine = (name: string): string => Array.from({ length: 9 }, () => `*${name}`).join(',');
  const bomb = `a: &a [${'x,'.repeat(9)}]\nb: &b [${nine('a')}]\nc: &c [${nine('b')}]\nd: [${nine('c')}]`;
  const long = `a: &a ${'x'.repeat(500_000)}\nb: [${nine('a')}]`;
  const cases: readonly (readonly [string, RegExp])[] = [
    [bomb, /excessive aliasing/],
    [long, /excessive aliasing/],
    ['a: &a [*a]', /deeper than 500|aliasing/],
    ['['.repeat(100_000), /deeper than 500/],
    ['- '.repeat(20_000), /deeper than 500/],
    ['{a: '.repeat(600), /deeper than 500|yaml: line/],
    [`${'[ '.repeat(600)}${'] '.repeat(600)}`, /deeper than 500/],
    ['a: [', /^yaml: line \d+: /],
    ['a: b: c', /^yaml: line 1: /],
    ['a: 1\n---\nb: 2', /multiple documents/],
    ['a: .nan', /unsupported value: NaN/],
    ['a: .inf', /unsupported value: Infinity/],
    ['? {a: 1}\n: 2', /invalid map key/],
    ['a: *x', /yaml: /],
    [`a: ${'x'.repeat(maxYamlBytes)}`, /longer than/],
  ];
  for (const [text, message] of cases) {
    assert.throws(() => decode(text), { name: 'BodyMistake', message }, text.slice(0, 40));
  }
  assert.throws(() => decodeYaml(Buffer.from([0x61, 0x3a, 0x20, 0xff])), /UTF-8/);
});

test('any text is decoded or refused', () => {
  const pieces = [
    'a',
    ': ',
    '- ',
    '\n',
    '  ',
    '[',
    ']',
    '{',
    '}',
    '&x ',
    '*x',
    '!!t ',
    '"',
    "'",
    '|',
    '>',
    '#',
    '? ',
    '<<',
    ',',
    '%',
    '\t',
    '---',
    '1',
    '~',
  ];
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 25 }), (parts) => {
      try {
        JSON.stringify(decode(parts.join('')).value);
      } catch (error) {
        assert.equal(error instanceof Error ? error.name : error, 'BodyMistake');
      }
    }),
    { numRuns: 3000 },
  );
});
