import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import { JobTimes } from './job-times.ts';

/** Times of a job that began at 1,000 ms. */
function newTimes(gracePeriodS: number, initialDelayS = 0) {
  const clock = new ManualClock(1000);
  const schedule = { gracePeriodS, initialDelayS };
  return { clock, schedule, times: new JobTimes(clock, () => schedule) };
}

test('the first baseline is followed by a scan after the initial delay, later ones after the period', () => {
  for (const [initialDelayS, firstMs] of [
    [0, 901_000],
    [30, 31_000],
  ] as const) {
    const { times } = newTimes(900, initialDelayS);
    assert.equal(times.checkDueMs, Infinity);
    times.succeededFirst();
    assert.equal(times.checkDueMs, firstMs);
    times.succeeded();
    assert.equal(times.checkDueMs, 901_000);
  }
});

test('after a restart a scan is due at once, but not within a minute of the last one', () => {
  const table: [gracePeriodS: number, initialDelayS: number, agoMs: number | undefined, dueMs: number][] = [
    [900, 0, undefined, 1000],
    [900, 0, 3_600_000, 1000],
    [900, 0, 20_000, 41_000],
    [10, 0, 2000, 9000],
    [900, 300, 3_600_000, 301_000],
    // The wall clock was put back.
    [900, 0, -3_600_000, 61_000],
  ];
  for (const [gracePeriodS, initialDelayS, agoMs, dueMs] of table) {
    const { times, clock } = newTimes(gracePeriodS, initialDelayS);
    times.resumed(agoMs === undefined ? undefined : clock.wallMs() - agoMs);
    assert.equal(times.checkDueMs, dueMs, `${gracePeriodS} ${initialDelayS} ${agoMs}`);
  }
});

test('where events are lost, scans keep a minute between them', async () => {
  const { times, clock } = newTimes(900);
  times.checkSoon();
  assert.equal(times.checkDueMs, 1000, 'there was none yet');
  times.checked();
  times.succeeded();
  await clock.advance(10_000);
  times.checkSoon();
  assert.equal(times.checkDueMs, 61_000);
});

test('a shorter period counts at once, a longer one after the next scan', () => {
  const { times, schedule } = newTimes(900);
  times.reschedule();
  assert.equal(times.checkDueMs, Infinity, 'nothing is to be scanned yet');
  times.succeeded();
  schedule.gracePeriodS = 60;
  times.reschedule();
  assert.equal(times.checkDueMs, 61_000);
  schedule.gracePeriodS = 3600;
  times.reschedule();
  assert.equal(times.checkDueMs, 61_000);
});

test('retries after failures with growing delays of at most a period, until a scan succeeds', () => {
  const { times } = newTimes(30);
  const waits = (): number[] => Array.from({ length: 5 }, () => times.failed() - 1000);
  assert.deepEqual(waits(), [5000, 10_000, 20_000, 30_000, 30_000]);
  times.works();
  assert.equal(times.failed(), 6000);
  times.retryDueMs = times.failed();
  times.tryNow();
  assert.equal(times.retryDueMs, -Infinity);
  assert.equal(times.failed(), 21_000, 'that somebody wants something mends nothing');
  times.retryDueMs = 21_000;
  times.succeeded();
  assert.deepEqual([times.retryDueMs, times.failed()], [-Infinity, 6000]);
});
