import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import { LaneTrouble } from './lane-trouble.ts';

function start(): { clock: ManualClock; trouble: LaneTrouble; reported: (string | undefined)[] } {
  const clock = new ManualClock(0);
  const reported: (string | undefined)[] = [];
  const trouble = new LaneTrouble({
    clock,
    failingMs: 1000,
    onChange: () => void reported.push(trouble.lasting),
  });
  return { clock, trouble, reported };
}

suite('a trouble that lasts', () => {
  test('is reported once, however many tries fail, and so is its end', async () => {
    const { clock, trouble, reported } = start();
    for (let tries = 0; tries < 100; tries++) {
      trouble.failed('HTTP 404');
      await clock.advance(99);
      assert.equal(trouble.isDecided, tries >= 10);
    }
    assert.deepEqual(reported, ['HTTP 404']);
    trouble.delivered();
    trouble.delivered();
    assert.deepEqual(reported, ['HTTP 404', undefined]);
    assert.ok(trouble.isDecided);
    assert.equal(clock.timers, 0);
  });

  test('needs no second try: what is dropped is not tried again', async () => {
    const { clock, trouble, reported } = start();
    trouble.failed('HTTP 400');
    await clock.advance(1000);
    assert.deepEqual(reported, ['HTTP 400']);
  });

  test('is not reported if it passes soon, or if the receiver takes some alerts', async () => {
    const { clock, trouble, reported } = start();
    for (let tries = 0; tries < 100; tries++) {
      trouble.failed('HTTP 503');
      await clock.advance(999);
      trouble.delivered();
    }
    assert.deepEqual([reported, clock.timers], [[], 0]);
  });

  test('another reason is reported, at a limited rate', async () => {
    const { clock, trouble, reported } = start();
    for (let tries = 0; tries < 400; tries++) {
      trouble.failed(`reason ${tries}`);
      await clock.advance(100);
    }
    assert.ok(reported.length > 1 && reported.length <= 1 + 40_000 / 10_000, reported.join());
    assert.equal(new Set(reported).size, reported.length);
  });

  test('reports nothing after disposal', async () => {
    const { clock, trouble, reported } = start();
    trouble.failed('HTTP 404');
    trouble[Symbol.dispose]();
    await clock.advance(5000);
    assert.deepEqual([reported, clock.timers], [[], 0]);
  });
});
