// Which files are in a directory, whatever becomes of it.
import assert from 'node:assert/strict';
import {
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { suite, test } from 'node:test';

import { run } from '../file-systems.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { until } from '../../testing/until.fixture.ts';
import { TrackingDirectories } from './directory-tracker.fixture.ts';

/** A root with these files in it. */
class Root extends TemporaryDirectory {
  constructor(...files: readonly string[]) {
    super();
    for (const file of files) this.write(file);
  }

  write(file: string): void {
    mkdirSync(this.at(file, '..'), { recursive: true });
    writeFileSync(this.at(file), file);
  }

  move(from: string, to: string): void {
    renameSync(this.at(from), this.at(to));
  }
}

function watches(): number {
  let count = 0;
  for (const fd of readdirSync('/proc/self/fdinfo')) {
    try {
      count += readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1').match(/^inotify wd:/gm)?.length ?? 0;
    } catch {
      // The descriptor of the listing itself is gone by now.
    }
  }
  return count;
}

suite('the files of a directory', () => {
  test('are there when it was added, those of directories in it only if asked for', async () => {
    using root = new Root('d/a', 'd/b', 'd/sub/c', 'd/sub/sub/e', 'other');
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d');
    using entries = await tracking.follow(root.path, '/d', { recursive: false });
    assert.deepEqual(below.paths(), ['/d/a', '/d/b', '/d/sub/c', '/d/sub/sub/e']);
    assert.deepEqual(entries.paths(), ['/d/a', '/d/b']);
    assert.equal(below.directory.state.kind, 'directory');
    assert.deepEqual(below.unwatched, { files: 0, directories: 0 });
  });

  test('are added and removed, in directories that are added and removed', async () => {
    using root = new Root('d/a');
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d');
    root.write('d/b');
    await below.untilPaths('/d/a', '/d/b');
    root.write('d/x/y/z/c');
    await below.untilPaths('/d/a', '/d/b', '/d/x/y/z/c');
    rmSync(root.at('d/b'));
    rmSync(root.at('d/x'), { recursive: true });
    await below.untilPaths('/d/a');
    assert.equal(tracking.tracker.watches, 1);
  });

  test('a tree that is moved in, within and out', async () => {
    using root = new Root('d/a', 'tree/1/one', 'tree/2/two', 'tree/top');
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d');
    root.move('tree', 'd/tree');
    await below.untilPaths('/d/a', '/d/tree/1/one', '/d/tree/2/two', '/d/tree/top');
    root.move('d/tree', 'd/other');
    await below.untilPaths('/d/a', '/d/other/1/one', '/d/other/2/two', '/d/other/top');
    assert.deepEqual(below.removed, [], 'a moved file is the same one all the time');
    root.write('d/other/2/late');
    await until('a file in a moved directory', () => below.paths().includes('/d/other/2/late'));
    root.move('d/other', 'gone');
    await below.untilPaths('/d/a');
    assert.equal(tracking.tracker.watches, 1);
  });

  test('a file that is renamed, or that another one is renamed over', async () => {
    using root = new Root('d/a', 'new');
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d');
    root.move('d/a', 'd/b');
    await below.untilPaths('/d/b');
    assert.deepEqual(below.removed, []);
    root.move('new', 'd/b');
    await until('the old file is dropped', () => below.removed.length === 1);
    assert.deepEqual(below.paths(), ['/d/b']);
  });

  test('one file with several names is one, until the last is gone', async () => {
    using root = new Root('d/a');
    linkSync(root.at('d/a'), root.at('d/b'));
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d');
    assert.equal(below.watched.size, 1);
    linkSync(root.at('d/a'), root.at('d/c'));
    rmSync(root.at('d/a'));
    rmSync(root.at('d/b'));
    await below.untilPaths('/d/c');
    assert.deepEqual(below.removed, []);
    rmSync(root.at('d/c'));
    await below.untilPaths();
  });

  test('behind symbolic links, as volumes of Secrets have them', async () => {
    using root = new Root('v/..1/token', 'v/..2/token', 'outside', 'elsewhere/in-directory');
    symlinkSync('..1', root.at('v/..data'));
    symlinkSync('..data/token', root.at('v/token'));
    symlinkSync('/outside', root.at('v/absolute'));
    symlinkSync('/elsewhere', root.at('v/directory'));
    symlinkSync('nowhere', root.at('v/dangling'));
    using tracking = new TrackingDirectories();
    using entries = await tracking.follow(root.path, '/v', { recursive: false });
    assert.deepEqual(entries.paths(), ['/v/absolute', '/v/token']);
    const [before] = entries.watched.keys();
    symlinkSync('..2', root.at('v/..new'));
    root.move('v/..new', 'v/..data');
    await until('the file of the new directory', () => entries.removed.length === 1);
    assert.deepEqual(entries.paths(), ['/v/absolute', '/v/token']);
    assert.ok(before);
    rmSync(root.at('v/token'));
    await entries.untilPaths('/v/absolute');
  });

  test('no link leads out of the root', async () => {
    using root = new Root('d/a');
    using other = new Root('secret');
    symlinkSync(other.at('secret'), root.at('d/absolute'));
    symlinkSync(`../../../../../../..${other.at('secret')}`, root.at('d/relative'));
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d');
    assert.deepEqual(below.paths(), ['/d/a']);
  });

  test('follows the files of a directory that is created, removed and replaced', async () => {
    using root = new Root('new/b');
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d/e');
    assert.deepEqual(below.directory.state, { kind: 'absent', missing: '/d' });
    root.write('d/e/a');
    await below.untilPaths('/d/e/a');
    root.move('d/e', 'old');
    root.move('new', 'd/e');
    await below.untilPaths('/d/e/b');
    rmSync(root.at('d'), { recursive: true });
    await below.untilPaths();
    await until('it is told', () => below.directory.state.kind === 'absent');
    writeFileSync(root.at('d'), '');
    await until('a file is none', () => below.directory.state.kind === 'unusable');
  });

  test('names may be arbitrary bytes', async () => {
    using root = new Root('d/a');
    run('sh', [
      '-c',
      `printf x > "$(printf '${root.at('d')}/caf\\351')"; mkdir "$(printf '${root.at('d')}/\\377')"`,
    ]);
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d');
    assert.deepEqual(below.paths(), ['/d/a', '/d/caf\ufffd']);
    run('sh', ['-c', `printf x > "$(printf '${root.at('d')}/\\377/b')"`]);
    await below.untilPaths('/d/a', '/d/caf\ufffd', '/d/\ufffd/b');
  });

  test('only regular files, and none of procfs', async () => {
    using root = new Root('d/a');
    run('mkfifo', [root.at('d/fifo')]);
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d');
    assert.deepEqual(below.paths(), ['/d/a']);
    using proc = await tracking.follow('/', '/proc/1', { recursive: false });
    assert.equal(proc.directory.state.kind, 'unusable');
    assert.match(
      proc.directory.state.kind === 'unusable' ? proc.directory.state.error.message : '',
      /^cannot follow the files in \/proc\/1: the kernel makes them up as they are read/,
    );
  });

  test('leave nothing behind', async () => {
    using root = new Root('d/a', 'd/sub/b', 'e/a');
    symlinkSync('/e/a', root.at('d/link'));
    const none = watches();
    using tracking = new TrackingDirectories();
    const both = [await tracking.follow(root.path, '/d'), await tracking.follow(root.path, '/d')];
    assert.ok(watches() > none);
    both[0]?.[Symbol.dispose]();
    assert.equal(both[1]?.paths().length, 3);
    both[1]?.[Symbol.dispose]();
    assert.equal(watches(), none);
  });
});

suite('an overflow of the event queue', () => {
  test('loses nothing, is counted, and reported once', async () => {
    using root = new Root('d/a', 'd/sub/b', 'd/sub/c');
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d');
    // Two events each, more than the queue holds, before the event loop can read one.
    const queue = Number(readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'));
    for (let i = 0; i <= queue / 2; i++) {
      root.write('d/noise');
      rmSync(root.at('d/noise'));
    }
    rmSync(root.at('d/a'));
    root.move('d/sub', 'd/moved');
    root.write('d/x/late');
    await below.untilPaths('/d/moved/b', '/d/moved/c', '/d/x/late');
    // Each look sees what is there by then: all may be known before the overflow is read.
    await until('it is counted', () => tracking.tracker.overflows > 0);
    assert.deepEqual(
      tracking.problems.map(({ message }) => message.split(':')[0]),
      ['events of followed paths were lost'],
    );
    root.write('d/moved/after');
    await below.untilPaths('/d/moved/after', '/d/moved/b', '/d/moved/c', '/d/x/late');
  });
});

suite('more than there is room for', () => {
  test('files are counted, and watched when there is room', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    using root = new Root('d/a', 'd/b', 'd/sub/c', 'd/sub/e');
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d', { maxFiles: 3 });
    assert.equal(below.watched.size, 3);
    assert.deepEqual(below.unwatched, { files: 1, directories: 0 });
    root.write('d/sub/late');
    root.write('d/last');
    await until('all are counted', () => {
      t.mock.timers.tick(10_000);
      return below.unwatched?.files === 3;
    });
    rmSync(root.at('d/a'));
    await until('another one is watched', () => {
      t.mock.timers.tick(10_000);
      return below.watched.size === 3 && below.unwatched?.files === 2;
    });
  });

  test('directories are counted, and the limit is reported once', async () => {
    using root = new Root('d/1/a', 'd/2/b', 'd/3/c');
    using tracking = new TrackingDirectories({ maxDirectories: 2 });
    using below = await tracking.follow(root.path, '/d');
    assert.equal(below.watched.size, 1);
    assert.deepEqual(below.unwatched, { files: 0, directories: 2 });
    assert.equal(tracking.problems.length, 1);
    assert.match(String(tracking.problems[0]), /2 directories are watched/);
  });
});
