// The watch stays with the path, whatever becomes of the file. The time until a new file is seen is
// printed, not asserted: machines are slow at times.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { suite, test, type TestContext } from 'node:test';

import { run } from '../../lib/sensor/file-systems.fixture.ts';
import { deepTest } from '../../lib/testing/depth.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { Watching } from './watch.fixture.ts';
import { patience } from '../../lib/testing/until.fixture.ts';

/**
 * Accesses `file` again and again until an access is reported, and returns how long after the change that
 * was.
 */
async function untilFollowed(watching: Watching, file: string, t: TestContext): Promise<void> {
  const signal = patience();
  const changedMs = performance.timeOrigin + performance.now();
  const before = watching.lines.length;
  let rounds = 0;
  while (watching.lines.length === before) {
    signal.throwIfAborted();
    rounds += 1;
    const child = spawn('cat', [file], { stdio: 'ignore' });
    await once(child, 'close', { signal });
  }
  const timestamp = watching.alerts()[before]?.timestamp ?? '';
  const seenMs = Date.parse(timestamp.replace(/(\.\d{3})\d+Z$/, '$1Z'));
  t.diagnostic(
    `an access ${(seenMs - changedMs).toFixed(0)} ms after the change is seen (of ${rounds} so far)`,
  );
}

suite('rampart watch follows', { skip: sensorSkip }, () => {
  test('a file that another one is renamed over', async (t) => {
    using directory = new TemporaryDirectory();
    const file = directory.at('file');
    writeFileSync(file, 'old');
    await using watching = await Watching.start(file);
    for (let round = 0; round < 3; round++) {
      writeFileSync(`${file}.new`, 'new');
      renameSync(`${file}.new`, file);
      await untilFollowed(watching, file, t);
    }
    assert.match(watching.stderr, /\/file is now inode \d+/);
  });

  deepTest('a file that is deleted and made again', async (t) => {
    using directory = new TemporaryDirectory();
    const file = directory.at('file');
    writeFileSync(file, 'old');
    await using watching = await Watching.start(file);
    for (let round = 0; round < 3; round++) {
      rmSync(file);
      writeFileSync(file, 'new');
      await untilFollowed(watching, file, t);
    }
  });

  deepTest('a directory on the way that is moved away and another put in its place', async (t) => {
    using directory = new TemporaryDirectory();
    for (const name of ['a', 'b']) {
      mkdirSync(directory.at(name, 'deep'), { recursive: true });
      writeFileSync(directory.at(name, 'deep/file'), name);
    }
    const file = directory.at('a/deep/file');
    await using watching = await Watching.start(file);
    run('mv', [directory.at('a'), directory.at('gone')]);
    await watching.untilSaid(/\/a\/deep\/file does not exist \(\S+\/a is missing\); waiting for it/);
    run('cat', [directory.at('gone/deep/file')]);
    run('mv', [directory.at('b'), directory.at('a')]);
    await untilFollowed(watching, file, t);
    // A moved file is no longer at the path, so it is not reported.
    const paths = watching.alerts().map(({ process: { arguments: text } }) => text);
    assert.ok(!paths.some((text) => text.includes('gone')), paths.join('\n'));
  });

  test('a path that does not exist yet', async (t) => {
    using directory = new TemporaryDirectory();
    const file = directory.at('later/deep/file');
    await using watching = await Watching.start(file);
    assert.match(watching.stderr, /does not exist \(\S+\/later is missing\); waiting for it/);
    mkdirSync(directory.at('later/deep'), { recursive: true });
    writeFileSync(file, '');
    await untilFollowed(watching, file, t);
  });

  deepTest('a symbolic link that is pointed elsewhere', async (t) => {
    using directory = new TemporaryDirectory();
    for (const name of ['one', 'two']) writeFileSync(directory.at(name), name);
    symlinkSync('one', directory.at('link'));
    await using watching = await Watching.start(directory.at('link'));
    run('cat', [directory.at('one')]);
    await watching.untilAlerts(1);
    symlinkSync('two', directory.at('link.new'));
    renameSync(directory.at('link.new'), directory.at('link'));
    await untilFollowed(watching, directory.at('two'), t);
  });
});
