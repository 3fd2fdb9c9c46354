import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { JsonSyntaxError, parseJsonCarefully } from '../../json/careful-json.ts';
import { BodyMistake } from './body-mistake.ts';
import { decodeJson } from './json-body.ts';
import { parseJson } from '../resources/json-text.ts';
import { countFields, outlineJson } from './json-outline.ts';

const decode = (text: string) => decodeJson(Buffer.from(text));

/** Integers from 2^53 on differ: JSON.parse does not keep them. */
function asNumbers(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? Number(value) : value;
}

test('both parsers agree with JSON.parse', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.constantFrom(undefined, 1, '\t'), (value, indent) => {
      const text = JSON.stringify(value, undefined, indent);
      const expected = JSON.stringify(JSON.parse(text));
      for (const decoded of [decode(text), parseJsonCarefully(text)]) {
        assert.equal(JSON.stringify(decoded.value, asNumbers), expected);
        assert.deepEqual(decoded.duplicates, []);
      }
    }),
  );
});

test('the outline counts the fields and levels that are there', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
      const { fields } = outlineJson(Buffer.from(JSON.stringify(value)));
      assert.equal(fields, countFields(JSON.parse(JSON.stringify(value))));
    }),
  );
  assert.equal(outlineJson(Buffer.from('{"a":[{"b":"[[[{{\\"["}]}')).depth, 3);
});

test('numbers are kept', () => {
  const cases: readonly (readonly [string, unknown])[] = [
    ['9007199254740991', 9_007_199_254_740_991],
    ['9007199254740993', 9_007_199_254_740_993n],
    ['-9223372036854775808', -(2n ** 63n)],
    ['9223372036854775807', 2n ** 63n - 1n],
    ['9223372036854775808', 2 ** 63],
    ['123456789012345678901234567890', 1.2345678901234568e29],
    ['0.12345678901234567890', 0.12345678901234568],
    ['1e3', 1000],
    ['1E+2', 100],
    ['-0', -0],
  ];
  for (const [text, value] of cases) assert.deepEqual(decode(text).value, value, text);
  assert.deepEqual(decode('{"a":[12345678901234567890123,{"b":1234567890123456789}]}').value, {
    a: [1.2345678901234568e22, { b: 1_234_567_890_123_456_789n }],
  });
});

test('duplicate fields are named, and the last one counts', () => {
  const { value, duplicates } = decode(
    '{"a":1,"spec":{"c":[{"n":1},{"n":2,"n":3}],"x":1,"x":{"y":1}},"a":2,"__proto__":1,"__proto__":2,"a":3}',
  );
  assert.deepEqual(duplicates, [
    'duplicate field "spec.c[1].n"',
    'duplicate field "spec.x"',
    'duplicate field "a"',
    'duplicate field "__proto__"',
    'duplicate field "a"',
  ]);
  assert.deepEqual(Object.entries(value as object), [
    ['a', 3],
    ['spec', { c: [{ n: 1 }, { n: 3 }], x: { y: 1 } }],
    ['__proto__', 2],
  ]);
  assert.deepEqual(decode('{"__proto__":{"a":1},"a":1}').duplicates, []);
  assert.equal(decode(`{${'"a":1,'.repeat(5000)}"b":1}`).duplicates.length, 100);
  // Escapes do not hide it.
  assert.deepEqual(decode(String.raw`{"a":1,"\u0061":2}`).duplicates, ['duplicate field "a"']);
});

test('keys with escapes are what they are, whatever was read before', () => {
  // JSON.parse takes the second for the first (nodejs/node#63785).
  for (const [before, key] of [
    ['/t/\\', '/t/\n'],
    ['/t/a\\', '/t/a"'],
    ['/t/c\\n', '/t/c\nx'],
  ] as const) {
    for (const data of [
      { '/t': 1, [before]: 1 },
      { '/t': 1, [key]: 1 },
    ]) {
      const text = JSON.stringify(data);
      assert.deepEqual(decode(text).value, data, text);
      assert.deepEqual(parseJson(text), data, text);
    }
  }
});

test('half a surrogate pair becomes U+FFFD', () => {
  assert.deepEqual(decode(String.raw`{"a":"\ud83d\ude00 \ud83d"}`).value, { a: '\u{1F600} \uFFFD' });
});

test('errors have the wording of an API server', () => {
  const cases: readonly (readonly [string, string])[] = [
    ['', 'unexpected end of JSON input'],
    ['  ', 'unexpected end of JSON input'],
    ['{', 'unexpected end of JSON input'],
    ['{"a":"b', 'unexpected end of JSON input'],
    ['{"a" 1}', "invalid character '1' after object key"],
    ['{"a":1 "b":2}', `invalid character '"' after object key:value pair`],
    ['{a:1}', "invalid character 'a' looking for beginning of object key string"],
    ['{"a":1,}', "invalid character '}' looking for beginning of object key string"],
    ['[1 2]', "invalid character '2' after array element"],
    ['[1,]', "invalid character ']' looking for beginning of value"],
    ['{} x', "invalid character 'x' after top-level value"],
    ["'a'", String.raw`invalid character '\'' looking for beginning of value`],
    ['tru', 'unexpected end of JSON input'],
    ['tru}', "invalid character '}' in literal true (expecting 'e')"],
    ['"\n"', String.raw`invalid character '\n' in string literal`],
    [String.raw`"\x"`, "invalid character 'x' in string escape code"],
    [String.raw`"\u12g4"`, String.raw`invalid character 'g' in \u hexadecimal character escape`],
    ['-x', "invalid character 'x' in numeric literal"],
    ['01', "invalid character '1' after top-level value"],
    ['1.x', "invalid character 'x' after decimal point in numeric literal"],
    ['1ex', "invalid character 'x' in exponent of numeric literal"],
    ['1e999', 'json: cannot unmarshal number 1e999 into Go value of type float64'],
    [`[${'['.repeat(500)}`, 'nested deeper than 500 levels'],
  ];
  for (const [text, message] of cases) {
    assert.throws(() => decode(text), { name: 'BodyMistake', message }, text);
  }
  assert.throws(() => decodeJson(Buffer.from([0x22, 0xff, 0x22])), { message: 'invalid UTF-8' });
  decode(`${'['.repeat(500)}${']'.repeat(500)}`);
});

test('any text is decoded or refused as JSON.parse would', () => {
  const pieces = [
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"',
    '"a"',
    '\\',
    'true',
    'nul',
    '1',
    '-',
    '.',
    'e',
    '9'.repeat(17),
    ' ',
  ];
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 12 }), (parts) => {
      const text = parts.join('');
      let expected: unknown;
      try {
        expected = JSON.parse(text);
      } catch {
        assert.throws(() => decode(text), BodyMistake);
        assert.throws(() => parseJsonCarefully(text), JsonSyntaxError);
        return;
      }
      let value: unknown;
      try {
        ({ value } = decode(text));
      } catch (error) {
        assert.match(String(error), /cannot unmarshal number/);
        return;
      }
      assert.equal(JSON.stringify(value, asNumbers), JSON.stringify(expected));
    }),
    { numRuns: 3000 },
  );
});
