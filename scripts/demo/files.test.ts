import assert from 'node:assert/strict';
import { test } from 'node:test';

import { type Expected, judge } from './files.ts';
import { type Check, failedOf } from './stage.ts';

/** What is checked of a step with a denied access that the mode does not see, and a read. */
function judged(...seen: readonly string[]): { readonly seen: readonly string[]; readonly failed: number } {
  const expected: readonly Expected[] = [
    { what: 'denied', access: undefined, why: 'only what succeeded' },
    { what: 'read', access: 'read of secret' },
  ];
  const checks: Check[] = [];
  judge(
    { check: (what, wanted, was, note) => void checks.push({ what, expected: wanted, seen: was, note }) },
    expected,
    seen,
  );
  return { seen: checks.map((check) => check.seen), failed: failedOf(checks) };
}

test('an access is as expected when it is seen once, and one that is not seen here when it is absent', () => {
  assert.deepEqual(judged('read of secret'), { seen: ['no alert', 'read of secret'], failed: 0 });
});

test('never, twice, another one, or one too many is not; all that was seen is told', () => {
  for (const [seen, told] of [
    [[], 'no alert'],
    [['read of secret', 'read of secret'], 'read of secret and read of secret'],
    [['read of other'], 'read of other'],
    [['write of secret', 'read of secret'], 'read of secret and write of secret'],
  ] as const)
    assert.deepEqual(judged(...seen), { seen: ['no alert', told], failed: 1 });
});
