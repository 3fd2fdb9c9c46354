import assert from 'node:assert/strict';
import { test } from 'node:test';

import { FindingHours } from './finding-hours.ts';

const nowMs = Date.UTC(2026, 10, 21, 10, 30);
const hour = (of: number): string => new Date(Date.UTC(2026, 10, 21, of)).toISOString();
const one = { guard: 'a', severity: 'high' } as const;

test('findings count in the hour of their time, for 24 hours', () => {
  const hours = new FindingHours();
  hours.add(one, nowMs);
  hours.add(one, nowMs - 60_000);
  hours.add({ guard: 'b', severity: 'low' }, nowMs);
  hours.add(one, Date.UTC(2026, 10, 20, 11));
  hours.add(one, Date.UTC(2026, 10, 20, 10, 59));
  assert.deepEqual(hours.last(nowMs), [
    { guard: 'a', hour: hour(-13), findings: { high: 1 } },
    { guard: 'a', hour: hour(10), findings: { high: 2 } },
    { guard: 'b', hour: hour(10), findings: { low: 1 } },
  ]);
});

test('what a process says of itself takes the place of what was counted of it, beside those before it', () => {
  const hours = new FindingHours();
  const about = (high: number) => ({ hours: [{ guard: 'a', hour: hour(10), findings: { high } }] });
  const count = (): number => hours.last(nowMs).reduce((sum, { findings }) => sum + (findings.high ?? 0), 0);
  hours.takeOver(about(1500), true);
  hours.add(one, nowMs);
  assert.equal(count(), 1501);
  hours.takeOver(about(1503), false);
  assert.equal(count(), 1503);
  hours.takeOver(about(2), true);
  assert.equal(count(), 1505);
  hours.takeOver(about(3), false);
  assert.equal(count(), 1506);
  for (const nonsense of [undefined, null, 1, { hours: 1 }, { hours: [{}] }]) {
    hours.takeOver(nonsense, false);
    assert.equal(count(), 1503);
  }
});
