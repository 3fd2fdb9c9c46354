import assert from 'node:assert/strict';
import { test } from 'node:test';

import { outcomeOf, parseRetryAfter } from './outcome.ts';

test('what each status means', () => {
  const kinds: Record<string, number[]> = { delivered: [], unwanted: [], failed: [] };
  for (let status = 100; status < 600; status++) kinds[outcomeOf(status, undefined, 0).kind]?.push(status);
  assert.deepEqual(
    kinds['delivered'],
    Array.from({ length: 100 }, (_, index) => 200 + index),
  );
  const aboutTheReceiver = [401, 402, 403, 404, 405, 407, 408, 410, 421, 423, 425, 426, 429, 451];
  assert.deepEqual(
    kinds['failed']?.filter((status) => status >= 400 && status < 500),
    aboutTheReceiver,
  );
  assert.equal(kinds['unwanted']?.length, 100 - aboutTheReceiver.length);
  assert.ok(kinds['unwanted'].every((status) => status >= 400 && status < 500));
  assert.equal(kinds['failed'].length, 300 + aboutTheReceiver.length);
});

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
  assert.deepEqual(outcomeOf(503, '7', now), { kind: 'failed', why: 'HTTP 503', retryAfterMs: 7000 });
});
