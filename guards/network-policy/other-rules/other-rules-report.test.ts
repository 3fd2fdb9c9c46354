import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import { noOtherRules, type OtherRules } from './other-rules.ts';
import { OtherRulesReport } from './other-rules-report.ts';

const minuteMs = 60_000;
const other: OtherRules = { ...noOtherRules, enforcers: ['another one has rules'] };

function reporting(read: () => Promise<OtherRules>) {
  const clock = new ManualClock();
  const warned: string[] = [];
  let changes = 0;
  const report = new OtherRulesReport({
    ...{ read, clock, signal: new AbortController().signal },
    onChange: () => void changes++,
    logger: { warn: (...args: readonly unknown[]) => void warned.push(String(args.at(-1))) } as never,
  });
  return { clock, warned, report, changes: () => changes };
}

suite('rules of other programs, now and then', () => {
  test('are read once after a full sync, at most once a minute, and reported when they change', async () => {
    const found = [other, other, noOtherRules];
    const { clock, warned, report, changes } = reporting(async () => found.shift() ?? assert.fail('read'));
    const look = async (fullSyncs: number, left: number): Promise<void> => {
      report.look(fullSyncs);
      await report[Symbol.asyncDispose]();
      assert.equal(found.length, left);
    };
    await look(0, 3);
    await look(1, 2);
    assert.equal(report.words, 'another one has rules');
    await look(1, 2);
    await look(2, 2);
    clock.advanceSync(minuteMs);
    await look(2, 1);
    assert.deepEqual([changes(), warned], [1, ['rules of other programs: another one has rules']]);
    clock.advanceSync(minuteMs);
    await look(2, 1);
    await look(3, 0);
    assert.deepEqual([report.words, changes()], [undefined, 2]);
  });

  test('unreadable rules are reported, and the last known state stays', async () => {
    let isRead = true;
    const { clock, warned, report } = reporting(async () => {
      if (isRead) return other;
      throw new Error('no memory');
    });
    report.look(1);
    await report[Symbol.asyncDispose]();
    isRead = false;
    clock.advanceSync(minuteMs);
    report.look(2);
    await report[Symbol.asyncDispose]();
    assert.equal(report.words, 'another one has rules');
    assert.match(warned[1] ?? '', /^cannot read the rules of other programs/);
  });
});
