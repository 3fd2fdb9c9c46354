// A file system that is unmounted below a watched directory: what comes to light is watched.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { fileSystemSkip, run } from '../file-systems.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { sensorSkip } from '../sensor.fixture.ts';
import { changeOf, TestChangeWatch } from './change-watch.fixture.ts';

suite('a file system that is unmounted', { skip: sensorSkip || fileSystemSkip('tmpfs') }, () => {
  test(
    'is told with all that was in it, and what comes to light is watched',
    { timeout: 60_000 },
    async () => {
      using stack = new DisposableStack();
      const scratch = stack.use(new TemporaryDirectory());
      const top = scratch.at('w/top');
      mkdirSync(`${top}/covered`, { recursive: true });
      run('mount', ['-t', 'tmpfs', 'rampart-test', top]);
      let isMounted = true;
      stack.defer(() => isMounted && run('umount', ['--lazy', top]));
      mkdirSync(`${top}/a/b`, { recursive: true });

      const watch = stack.use(new TestChangeWatch(scratch.path, { wants: () => true }));
      for (const path of ['/w', '/w/top', '/w/top/a', '/w/top/a/b'])
        assert.equal(watch.watch.watchDirectory(path), 'watched');
      const before = watch.watch.stats().directories;
      run('umount', [top]);
      isMounted = false;
      await watch.until(({ path, below }) => path === '/w/top' && below);
      await watch.settled();
      // Two that are gone, and one that came to light.
      assert.equal(watch.watch.stats().directories, before - 1);

      writeFileSync(`${top}/covered/file`, 'x');
      writeFileSync(`${top}/file`, 'x');
      const later = await watch.settled();
      changeOf(later, '/w/top/covered/file');
      changeOf(later, '/w/top/file');
    },
  );
});
