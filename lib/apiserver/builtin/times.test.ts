import assert from 'node:assert/strict';
import { test } from 'node:test';

import { canonicalTime } from './times.ts';

test('times as the API server writes them', () => {
  const cases: readonly (readonly [string, boolean, string | undefined])[] = [
    ['2026-11-21T10:00:00Z', false, '2026-11-21T10:00:00Z'],
    ['2026-11-21T10:00:00.999Z', false, '2026-11-21T10:00:00Z'],
    ['2026-11-21T12:00:00+02:00', false, '2026-11-21T10:00:00Z'],
    ['2026-11-21T10:00:00.123456Z', true, '2026-11-21T10:00:00.123456Z'],
    ['2026-11-21T10:00:00.1234567Z', true, '2026-11-21T10:00:00.123456Z'],
    ['2026-11-21T10:00:00Z', true, '2026-11-21T10:00:00.000000Z'],
    ['2026-11-21T08:00:00.5-02:00', true, '2026-11-21T10:00:00.500000Z'],
    ['yesterday', false, undefined],
    ['2026-13-41T10:00:00Z', false, undefined],
    ['', true, undefined],
  ];
  for (const [value, isMicro, expected] of cases) assert.equal(canonicalTime(value, isMicro), expected);
});
