import assert from 'node:assert/strict';
import { test } from 'node:test';

import { warningHeaders } from './warnings.ts';

const decoded = (warnings: readonly string[]): string[] =>
  warningHeaders(warnings).map((value) => Buffer.from(value, 'latin1').toString('utf8'));

test('each warning once, quoted, as bytes of a header', () => {
  assert.deepEqual(decoded(['a', 'b', 'a', '']), ['299 - "a"', '299 - "b"']);
  assert.deepEqual(decoded([String.raw`say "x\y"`]), [String.raw`299 - "say \"x\\y\""`]);
  assert.deepEqual(decoded(['a\r\nb\u0000c\u0085']), ['299 - "a  b c "']);
  assert.deepEqual(decoded(['é \u{1F600}']), ['299 - "é \u{1F600}"']);
  for (const value of warningHeaders(['\u{1F600}\ud800'])) assert.match(value, /^[ -ÿ]*$/);
});

test('too much is cut, and what is left over left out', () => {
  const long = Array.from({ length: 30 }, (_, at) => `${at} ${'x'.repeat(300)}`);
  const values = decoded(long);
  assert.equal(values.length, 16);
  for (const value of values) assert.equal(value.length, 256 + '299 - ""'.length);
  assert.equal(decoded(['x'.repeat(4096)])[0]?.length, 4096 + 8);
});
