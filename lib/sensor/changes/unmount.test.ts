// A file system that is unmounted below a watched directory: what comes to light is watched.
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { fileSystemSkip, run } from '../file-systems.fixture.ts';
import { sensorSkip } from '../sensor.fixture.ts';

suite('a file system that is unmounted', { skip: sensorSkip || fileSystemSkip('tmpfs') }, () => {
  test('an unmounted file system is reported with its contents, and the uncovered directory is watched', () => {
    // inotify reports an unmount when the last mount of the file system is gone: a mount namespace created
    // meanwhile would keep a copy of a shared one.
    run('unshare', ['--mount', process.execPath, join(import.meta.dirname, 'unmount.fixture.ts')]);
  });
});
