import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../lib/testing/fast-check.fixture.ts';
import { breakJson } from './json-text.ts';

test('breaks JSON, and changes nothing but line breaks and indents', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 4 }), fc.integer({ min: 1, max: 120 }), (given, widthColumns) => {
      const text = JSON.stringify(JSON.parse(given));
      assert.equal(breakJson(text, widthColumns).replaceAll(/\n */g, ''), text);
    }),
  );
});

test('a member of the object to a line, long ones on several', () => {
  const text =
    '{"a":{"b":[1,2],"c":"x,\\",}"},"long":{"first":12345678,"second":12345678},"last":18446744073709551615}';
  assert.deepEqual(breakJson(text, 30).split('\n'), [
    '{"a":{"b":[1,2],"c":"x,\\",}"},',
    ' "long":{"first":12345678,',
    '     "second":12345678},',
    ' "last":18446744073709551615}',
  ]);
});
