import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../testing/fast-check.fixture.ts';

import { parseJsonCarefully } from './careful-json.ts';
import { hasEscapedKey, parseJsonKeys } from './escaped-keys.ts';

const text = fc.string({
  unit: fc.constantFrom('"', '\\', '\n', 'a', ':', ',', '{', '}', ' ', 'é'),
  maxLength: 6,
});
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    text,
    fc.constantFrom(1, true, null, {}, []),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(text, tie('value'), { maxKeys: 4 }),
  ),
})).value;

function keysOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(keysOf);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, one]) => [key, ...keysOf(one)]);
}

test('an escape in a key is found, and none elsewhere', () => {
  fc.assert(
    fc.property(json, fc.constantFrom(undefined, 1, '\t'), (value, indent) => {
      const written = JSON.stringify(value, undefined, indent);
      assert.equal(hasEscapedKey(written), /["\\\n]/.test(keysOf(value).join('')));
      assert.deepEqual(parseJsonKeys(written), parseJsonCarefully(written).value);
    }),
  );
});

test('invalid JSON is scanned to its end and no further', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('"', '\\', ':', ' ', 'a') }), (any) => {
      assert.equal(typeof hasEscapedKey(any), 'boolean');
    }),
  );
});

test('a key is not taken for the beginning of an earlier one in the text', () => {
  const before = JSON.parse('{"h":[],"\\\\":0}') as object;
  const after = '{"h":1,"\\"":2}';
  assert.deepEqual(parseJsonKeys(after), { h: 1, '"': 2 });
  assert.deepEqual(
    parseJsonKeys(after, (_name, value) => value),
    { h: 1, '"': 2 },
  );
  assert.deepEqual(parseJsonKeys(`[${after}]`), [{ h: 1, '"': 2 }]);
  assert.deepEqual(before, { h: [], '\\': 0 });
});
