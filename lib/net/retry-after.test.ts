import assert from 'node:assert/strict';
import { test } from 'node:test';

import { parseRetryAfter } from './retry-after.ts';

test('Retry-After', () => {
  const now = Date.UTC(2030, 0, 1);
  const table: readonly (readonly [string | undefined, number | undefined])[] = [
    [undefined, undefined],
    ['', undefined],
    ['0', 0],
    [' 120 ', 120_000],
    ['1.5', undefined],
    ['-5', undefined],
    ['soon', undefined],
    ['Monday', undefined],
    ['2031', 2_031_000],
    ['Tue, 01 Jan 2030 00:02:00 GMT', 120_000],
    ['Tuesday, 01-Jan-30 00:02:00 GMT', 120_000],
    ['Mon, 31 Dec 2029 00:00:00 GMT', 0],
  ];
  for (const [header, ms] of table) assert.equal(parseRetryAfter(header, now), ms, String(header));
});
