import assert from 'node:assert/strict';
import { test } from 'node:test';

import { operations } from '../../lib/sensor/modes.ts';
import { type Expected, judge, type Seen } from './judge.ts';

const operation = (name: string) => operations.find((candidate) => candidate.name === name)!;
const cat = { file: 'secret', binary: '/usr/bin/cat', uid: 0, verdict: 'allowed' } as const;
const read: Expected = { ...cat, operation: operation('read') };
const denied: Expected = { ...cat, verdict: 'denied', operation: operation('denied') };
const seenRead: Seen = { ...cat, mask: 36 };

test('seen once as expected is ok', () => {
  const [row] = judge([read], [seenRead], 'raw_tracepoint');
  assert.equal(row?.ok, true);
  assert.equal(row.seen, 1);
  assert.deepEqual(row.differences, []);
});

test('never or twice is not', () => {
  const [missing] = judge([read], [], 'fentry');
  assert.equal(missing?.ok, false);
  assert.match(missing.differences.join(), /expected once, seen never: read \(mask 36\) of secret/);
  const [twice] = judge([read], [seenRead, seenRead], 'fentry');
  assert.equal(twice?.ok, false);
  assert.equal(twice.seen, 2);
});

for (const [what, other] of Object.entries({
  mask: { mask: 38 },
  file: { file: 'other' },
  binary: { binary: 'cat' },
  uid: { uid: 1 },
  verdict: { verdict: 'unknown' },
} as const)) {
  test(`another ${what} is not what was expected`, () => {
    const [row] = judge([read], [{ ...seenRead, ...other }], 'kprobe');
    assert.equal(row?.ok, false);
    assert.equal(row.differences.length, 2);
    assert.match(row.differences.join(), /seen never.*seen, not expected/);
  });
}

test('accesses that the mode does not see must be absent, with the reason', () => {
  const [row] = judge([denied], [], 'raw_tracepoint');
  assert.equal(row?.ok, true);
  assert.equal(row.mask, undefined);
  assert.equal(row.unseenBecause, operation('denied').unseenBecause);
  const [seen] = judge([denied], [{ ...seenRead, verdict: 'denied' }], 'raw_tracepoint');
  assert.equal(seen?.ok, false);
  assert.equal(seen.seen, 1);
  assert.equal(judge([denied], [], 'fentry')[0]?.ok, false);
});

test('accesses that this machine hides must be absent too', () => {
  const hidden = { ...read, unseenHere: 'tmpfs' };
  assert.equal(judge([hidden], [], 'fentry')[0]?.unseenBecause, 'tmpfs');
  assert.equal(judge([hidden], [], 'fentry')[0]?.ok, true);
  assert.equal(judge([hidden], [seenRead], 'fentry')[0]?.ok, false);
});

test('an alert too many fails the last access of the step only', () => {
  const rows = judge([denied, read], [seenRead, { ...seenRead, file: 'other' }], 'raw_tracepoint');
  assert.deepEqual(
    rows.map(({ ok, seen }) => [ok, seen]),
    [
      [true, 0],
      [false, 2],
    ],
  );
});
