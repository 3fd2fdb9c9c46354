import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { ManualClock } from '../../time/clock.fixture.ts';
import { KubeError, unreachable } from './client-errors.ts';
import { failureLevels } from './failure-level.ts';

const status = (code: number, reason: string): KubeError =>
  new KubeError({ what: 'update it', status: code, reason, message: 'no' });

suite('how loud a failure is logged', () => {
  test('a conflict only when it goes on', () => {
    const level = failureLevels(new ManualClock());
    for (const error of [status(409, 'Conflict'), status(409, 'AlreadyExists')]) {
      assert.equal(level(error, 0), 'debug');
      assert.equal(level(error, 4), 'debug');
      assert.equal(level(error, 5), 'warn');
    }
  });

  test('an API that is away once a minute, whoever asks', async () => {
    const clock = new ManualClock();
    const level = failureLevels(clock);
    const away = unreachable('get pods', 'connection refused');
    assert.equal(level(away, 0), 'warn');
    await clock.advance(59_999);
    assert.equal(level(away, 9), 'debug');
    await clock.advance(1);
    assert.equal(level(away, 10), 'warn');
    assert.equal(level(away, 0), 'debug');
  });

  test('everything else each time', () => {
    const level = failureLevels(new ManualClock());
    for (const error of [
      new Error('a fault'),
      status(403, 'Forbidden'),
      status(500, 'InternalError'),
      'text',
    ]) {
      assert.equal(level(error, 0), 'warn');
      assert.equal(level(error, 7), 'warn');
    }
  });
});
