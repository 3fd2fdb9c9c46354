import assert from 'node:assert/strict';
import { test } from 'node:test';

import { decodeJson } from '../body/json-body.ts';
import * as fc from '../../testing/fast-check.fixture.ts';
import { jsonText, parseJson } from './json-text.ts';

test('an integer of 64 bits survives a round trip', () => {
  const text = '{"inode":9223372036854775807,"low":-9223372036854775808,"small":5,"half":0.5}';
  const value = parseJson(text);
  assert.deepEqual(value, { inode: 2n ** 63n - 1n, low: -(2n ** 63n), small: 5, half: 0.5 });
  assert.equal(jsonText(value), text);
});

test('an integer of more than 64 bits is a float, as in a request', () => {
  const text = '{"high":9223372036854776000,"low":-9223372036854776000,"more":10000000000000000000}';
  const value = parseJson(text);
  assert.deepEqual(value, { high: 2 ** 63, low: -(2 ** 63), more: 1e19 });
  assert.deepEqual(value, decodeJson(Buffer.from(text)).value);
  assert.equal(jsonText(value), text);
});

test('digits in texts and fractions stay what they are', () => {
  const value = { text: '12345678901234567890', big: 1e300, small: 1.2345678901234567 };
  assert.deepEqual(parseJson(JSON.stringify(value)), value);
});

test('any JSON: as JSON.parse and JSON.stringify', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: fc.anyCharacter }), (value) => {
      const text = JSON.stringify(value);
      assert.equal(jsonText(parseJson(text)), text);
    }),
  );
});
