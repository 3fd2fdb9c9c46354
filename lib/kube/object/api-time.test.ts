import assert from 'node:assert/strict';
import { test } from 'node:test';

import { apiTimeNs } from './api-time.ts';

const ns = BigInt(Date.UTC(2026, 10, 21, 10)) * 1_000_000n + 123_456_789n;

test('times to the nanosecond', () => {
  for (const [text, expected] of [
    ['2026-11-21T10:00:00.123456789Z', ns],
    ['2026-11-21T11:00:00.123456789+01:00', ns],
    ['2026-11-21T10:00:00Z', ns - 123_456_789n],
    ['2026-11-21T10:00:00.1Z', ns - 23_456_789n],
    ['rampart:', undefined],
    ['2026', undefined],
    ['', undefined],
  ] as const) {
    assert.equal(apiTimeNs(text), expected, text);
  }
});
