import assert from 'node:assert/strict';
import { test } from 'node:test';

import { monotonicNs, WallClock } from './clock.ts';

const nowNs = (): bigint => BigInt(Date.now()) * 1_000_000n;
const NS_PER_MS = 1_000_000n;

test('the monotonic clock is the one Node reads', () => {
  const before = process.hrtime.bigint();
  const ours = monotonicNs();
  const after = process.hrtime.bigint();
  assert.ok(before <= ours && ours <= after, `${before} ${ours} ${after}`);
});

test('a monotonic time becomes the wall clock of the same moment, in nanoseconds', () => {
  const clock = new WallClock();
  for (let i = 0; i < 100; i++) {
    const before = nowNs();
    const wall = clock.wallNs(monotonicNs());
    const after = nowNs();
    // Date has whole milliseconds, cut off.
    assert.ok(before - NS_PER_MS <= wall && wall <= after + 2n * NS_PER_MS, `${before} ${wall} ${after}`);
  }
});

test('differences are kept exactly, before and after the moment of measuring', () => {
  const clock = new WallClock();
  const zero = clock.wallNs(0n);
  for (const ns of [1n, 999_999_999n, 2n ** 62n]) assert.equal(clock.wallNs(ns) - zero, ns);
});

test('refreshing finds the same distance while the clock is not set', () => {
  const clock = new WallClock();
  const first = clock.wallNs(0n);
  clock.refresh();
  const drift = clock.wallNs(0n) - first;
  assert.ok(drift > -NS_PER_MS && drift < NS_PER_MS, `${drift} ns`);
});
