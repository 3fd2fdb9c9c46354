import assert from 'node:assert/strict';
import { test } from 'node:test';

import { outcomeOf } from './outcome.ts';

test('each status has its outcome', () => {
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

test('Retry-After is passed on', () => {
  assert.deepEqual(outcomeOf(503, '7', 0), { kind: 'failed', why: 'HTTP 503', retryAfterMs: 7000 });
});
