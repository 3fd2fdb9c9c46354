import assert from 'node:assert/strict';
import { test } from 'node:test';

import { winnerOf } from './same-name.ts';

test('of two of one name the older one is used', () => {
  const of = (uid: string, creationTimestamp: string, more = {}) => ({
    metadata: { uid, creationTimestamp, ...more },
  });
  const [old, young] = [of('z', '2026-01-01T00:00:00Z'), of('a', '2026-01-01T00:00:01Z')];
  for (const both of [
    [old, young],
    [young, old],
  ])
    assert.equal(winnerOf(both), old);
  const [b, a] = [of('b', '2026-01-01T00:00:00Z'), of('a', '2026-01-01T00:00:00Z')];
  for (const both of [
    [a, b],
    [b, a],
  ])
    assert.equal(winnerOf(both), a);
  const going = of('y', '2025-01-01T00:00:00Z', { deletionTimestamp: '2026-01-01T00:00:00Z' });
  assert.equal(winnerOf([going, young]), young);
  assert.equal(winnerOf([going]), undefined);
});
