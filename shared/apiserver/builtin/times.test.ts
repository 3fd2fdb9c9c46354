import assert from 'node:assert/strict';
import { test } from 'node:test';

import { canonicalTime } from './times.ts';

test('times as the API server writes them', () => {
  const cases: readonly (readonly [unknown, boolean, unknown])[] = [
    ['2026-11-21T10:00:00Z', false, '2026-11-21T10:00:00Z'],
    ['2026-11-21T10:00:00.999Z', false, '2026-11-21T10:00:00Z'],
    ['2026-11-21T12:00:00+02:00', false, '2026-11-21T10:00:00Z'],
    ['2026-11-21T10:00:00.123456Z', true, '2026-11-21T10:00:00.123456Z'],
    ['2026-11-21T10:00:00.1234567Z', true, '2026-11-21T10:00:00.123456Z'],
    ['2026-11-21T10:00:00Z', true, '2026-11-21T10:00:00.000000Z'],
    ['2026-11-21T08:00:00.5-02:00', true, '2026-11-21T10:00:00.500000Z'],
    ['yesterday', false, 'yesterday'],
    ['2026-13-41T10:00:00Z ', false, '2026-13-41T10:00:00Z '],
    [null, false, null],
    [5, true, 5],
  ];
  for (const [value, isMicro, expected] of cases) assert.equal(canonicalTime(value, isMicro), expected);
});
