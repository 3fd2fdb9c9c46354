import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { until } from './until.fixture.ts';

suite('until', () => {
  test('polls until there is an answer without an error, and returns it', async () => {
    const answers = [false, undefined, null, '', 0];
    let asked = 0;
    const answer: number = await until('a number', () => {
      if (asked++ === 0) throw new Error('not yet');
      return answers.shift() as false | number;
    });
    assert.deepEqual([answer, asked], [0, 6]);
    assert.equal(await until(async () => 'so'), 'so');
  });

  test('a missing event is reported, with the last error', async () => {
    const cause = new Error('it broke');
    await assert.rejects(
      until('rain', () => Promise.reject(cause), 0),
      (error: Error) => error.message === 'waited in vain for rain' && error.cause === cause,
    );
  });
});
