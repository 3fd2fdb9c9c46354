import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { Running } from './running.fixture.ts';

const script = (text: string): Running => new Running(['sh', '-c', text]);

suite('a process whose output is waited for', () => {
  test('several wait at once, each for its own words', async () => {
    await using running = script('echo one; echo two >&2; echo -n three; exec sleep 1000');
    await Promise.all([
      running.until(() => running.lines.length === 1 && running.stdout.endsWith('three')),
      running.untilSaid(/two/),
    ]);
    assert.deepEqual(running.lines, ['one']);
    const { code, signal, stdout, stderr } = await running.stop();
    assert.deepEqual([code, signal, stdout, stderr], [null, 'SIGTERM', 'one\nthree', 'two\n']);
  });

  test('a wait ends with the process, or by its signal, and says what was printed', async () => {
    await using over = script('echo why >&2; exit 3');
    await assert.rejects(over.untilSaid(/never/), /exit code 3\):\nwhy/);
    await using silent = script('exec sleep 1000');
    const waiting = new AbortController();
    const waited = assert.rejects(silent.untilSaid(/never/, waiting.signal), /it still runs/);
    waiting.abort();
    await waited;
  });

  test('a program that is not there has ended, and why is in its words', async () => {
    await using none = new Running(['no-such-program']);
    assert.match((await none.ended).stderr, /ENOENT/);
  });
});
