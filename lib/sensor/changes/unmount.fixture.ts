/**
 * Unmounts a file system below a watched directory, in a mount namespace of its own. Ends with an error if a
 * report is missing.
 */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';

import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { run } from '../file-systems.fixture.ts';
import { changeOf, TestChangeWatch } from './change-watch.fixture.ts';

using scratch = new TemporaryDirectory();
const top = scratch.at('w/top');
mkdirSync(`${top}/covered`, { recursive: true });
run('mount', ['-t', 'tmpfs', 'rampart-test', top]);
mkdirSync(`${top}/a/b`, { recursive: true });

using watch = new TestChangeWatch(scratch.path, { wants: () => true });
for (const path of ['/w', '/w/top', '/w/top/a', '/w/top/a/b'])
  assert.equal(watch.watch.watchDirectory(path), 'watched');
const before = watch.watch.stats().directories;
run('umount', [top]);
await watch.until(({ path, below }) => path === '/w/top' && below);
await watch.settled();
// Two that are gone, and one that came to light.
assert.equal(watch.watch.stats().directories, before - 1);

writeFileSync(`${top}/covered/file`, 'x');
writeFileSync(`${top}/file`, 'x');
const later = await watch.settled();
changeOf(later, '/w/top/covered/file');
changeOf(later, '/w/top/file');
