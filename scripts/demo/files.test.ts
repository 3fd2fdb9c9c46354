import assert from 'node:assert/strict';
import { test } from 'node:test';

import { judge } from './files.ts';
import { failedOf } from './stage.ts';

test('an access is as expected when it is seen once; one that is not seen here when it is absent', () => {
  const step = [
    { what: 'denied', expected: 'no alert', note: 'only what succeeded' },
    { what: 'read', expected: 'read of secret' },
  ];
  for (const [failed, reported, ...seen] of [
    [0, 'read of secret', 'read of secret'],
    [1, 'no alert'],
    [1, 'read of secret and read of secret', 'read of secret', 'read of secret'],
    [1, 'read of other', 'read of other'],
    [1, 'read of secret and write of secret', 'write of secret', 'read of secret'],
  ] as const) {
    const checks = judge(step, seen);
    assert.deepEqual(
      checks.map((check) => check.seen),
      ['no alert', reported],
    ); // all that was seen is told
    assert.equal(failedOf(checks), failed);
  }
});
