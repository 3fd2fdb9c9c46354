// The file of an access is the watched one: on every file system, by every way to it, and not another
// one that got its inode number.
import assert from 'node:assert/strict';
import { linkSync, mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { after, suite, test } from 'node:test';

import type { Access } from './access.ts';
import {
  fileSystemSkip,
  imageOf,
  mountDevice,
  Mounted,
  overlayOf,
  run,
  tmpfs,
} from './file-systems.fixture.ts';
import { TemporaryDirectory } from '../testing/temporary-directory.fixture.ts';
import { openTestSensor, sensorSkip, type TestSensor } from './sensor.fixture.ts';

/** One for all tests: opening costs more than everything else here. */
let shared: TestSensor | undefined;
const sensor = (): TestSensor => (shared ??= openTestSensor());
after(() => shared?.[Symbol.dispose]());

/** The accesses that `cat` of these files raises. */
function accessesByCat(...files: readonly string[]): Access[] {
  sensor().take();
  run('cat', files);
  return sensor().take();
}

/** Every way to the file raises one access, of the device that the mount has. */
function oneAccessEach(file: string, mountPoint: string, ways: readonly string[]): void {
  using watched = sensor().watchFile(file);
  assert.equal(watched.identity.device, mountDevice(mountPoint));
  for (const way of ways) {
    const accesses = accessesByCat(way);
    assert.deepEqual(
      accesses.map(({ inode, device, mask, arguments: path }) => ({ inode, device, mask, path })),
      [{ inode: watched.identity.inode, device: watched.identity.device, mask: 36, path: way }],
    );
  }
}

/** Links of every kind to `file`, in its own directory and in another. */
function linksTo(file: string): readonly string[] {
  linkSync(file, `${file}.hard`);
  symlinkSync(file, `${file}.absolute`);
  symlinkSync('file', `${file}.relative`);
  symlinkSync(`${file}.absolute`, `${file}.twice`);
  return [`${file}.hard`, `${file}.absolute`, `${file}.relative`, `${file}.twice`];
}

function fileIn(...path: readonly string[]): string {
  const file = path.join('/');
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, 'content\n');
  return file;
}

suite('one access for one open', { skip: sensorSkip }, () => {
  test('on tmpfs, through links and a bind mount', { skip: fileSystemSkip('tmpfs') }, () => {
    using disk = tmpfs();
    const file = fileIn(disk.path, 'file');
    using bound = new Mounted('--bind', disk.path);
    oneAccessEach(file, disk.path, [file, ...linksTo(file), bound.at('file'), `/proc/self/root${file}`]);
  });

  test('on ext4, through links and a bind mount', { skip: fileSystemSkip('ext4') }, () => {
    using space = new TemporaryDirectory();
    using disk = imageOf('ext4', space.path, 8);
    const file = fileIn(disk.path, 'file');
    using bound = new Mounted('--bind', disk.path);
    oneAccessEach(file, disk.path, [file, ...linksTo(file), bound.at('file')]);
  });

  test(
    'on btrfs, in a subvolume too, where stat has another device',
    { skip: fileSystemSkip('btrfs') },
    () => {
      using space = new TemporaryDirectory();
      using disk = imageOf('btrfs', space.path, 128);
      const file = fileIn(disk.path, 'file');
      oneAccessEach(file, disk.path, [file, ...linksTo(file)]);
      run('btrfs', ['subvolume', 'create', disk.at('sub')]);
      const inside = fileIn(disk.path, 'sub', 'file');
      assert.notEqual(statSync(inside).dev, statSync(file).dev);
      oneAccessEach(inside, disk.path, [inside, ...linksTo(inside)]);
      using snapshotOnly = new Mounted('-o', 'loop,subvol=sub', `${space.path}/btrfs.img`);
      oneAccessEach(inside, disk.path, [snapshotOnly.at('file')]);
    },
  );

  test('on overlay with all layers on one file system', { skip: fileSystemSkip('overlay') }, () => {
    using disk = tmpfs();
    fileIn(disk.path, 'lower/below/file');
    fileIn(disk.path, 'upper/above/file');
    using merged = overlayOf(disk.at('lower'), disk.at('upper'), disk.at('work'));
    for (const layer of ['below', 'above']) {
      const file = merged.at(layer, 'file');
      oneAccessEach(file, merged.path, [file]);
    }
    const above = merged.at('above/file');
    oneAccessEach(above, merged.path, linksTo(above));
  });

  test(
    'on overlay with layers on two file systems',
    { skip: fileSystemSkip('overlay') || fileSystemSkip('ext4') },
    () => {
      using space = new TemporaryDirectory();
      using lower = imageOf('ext4', space.path, 8);
      using upper = tmpfs();
      fileIn(lower.path, 'below/file');
      fileIn(upper.path, 'upper/above/file');
      using merged = overlayOf(lower.path, upper.at('upper'), upper.at('work'));
      assert.notEqual(statSync(merged.at('below/file')).dev, statSync(merged.path).dev);
      for (const layer of ['below', 'above']) {
        const file = merged.at(layer, 'file');
        oneAccessEach(file, merged.path, [file]);
      }
    },
  );

  test(
    'on overlay over two tmpfs, whose inode numbers are the same',
    { skip: fileSystemSkip('overlay') },
    () => {
      using lower = tmpfs();
      using upper = tmpfs();
      for (let i = 0; i < 16; i++) {
        fileIn(lower.path, `below${i}`);
        fileIn(upper.path, 'upper', `above${i}`);
      }
      using merged = overlayOf(lower.path, upper.at('upper'), upper.at('work'));
      const layer = (name: string): string[] =>
        Array.from({ length: 16 }, (_, i) => merged.at(`${name}${i}`));
      const numberOf = (file: string): bigint => sensor().identify(file).inode;
      const others = layer('above');
      const below = layer('below').find((file) => others.some((other) => numberOf(other) === numberOf(file)));
      assert.ok(below !== undefined, 'no two files of the layers have the same number');
      using _watched = sensor().watchFile(below);
      assert.equal(accessesByCat(below).length, 1);
      assert.deepEqual(accessesByCat(...others), []);
    },
  );

  test(
    'a file is watched through the overlay, not in the layers below',
    { skip: fileSystemSkip('overlay') },
    () => {
      using disk = tmpfs();
      const below = fileIn(disk.path, 'lower/file');
      using merged = overlayOf(disk.at('lower'), disk.at('upper'), disk.at('work'));
      using watched = sensor().watchFile(merged.at('file'));
      assert.deepEqual(accessesByCat(below), []);
      using both = sensor().watchFile(below);
      assert.notEqual(both.identity.device, watched.identity.device);
      // The overlay opens the file below for its own use: in the modes that see it, two files are touched.
      const paths = accessesByCat(merged.at('file')).map(({ device }) => device);
      assert.equal(paths.filter((device) => device === watched.identity.device).length, 1);
    },
  );
});

suite('a file on overlay that is copied up', { skip: sensorSkip || fileSystemSkip('overlay') }, () => {
  test('stays watched by those who watched it before and by those who come later', () => {
    using disk = tmpfs();
    fileIn(disk.path, 'lower/file');
    using merged = overlayOf(disk.at('lower'), disk.at('upper'), disk.at('work'));
    const file = merged.at('file');
    using before = sensor().watchFile(file);
    assert.equal(accessesByCat(file).length, 1);
    run('sh', ['-c', 'echo more >> "$0"', file]);
    assert.deepEqual(
      sensor()
        .take()
        .map(({ mask }) => mask),
      [42],
    );
    assert.equal(accessesByCat(file).length, 1);
    using later = sensor().watchFile(file);
    assert.deepEqual(
      [later.identity.inode, later.identity.device],
      [before.identity.inode, before.identity.device],
    );
    sensor().take();
    run('cat', [file]);
    sensor().accesses();
    assert.deepEqual(
      new Set(sensor().seen.map(({ watcher }) => watcher)),
      new Set([before.watcher, later.watcher]),
    );
    later[Symbol.dispose]();
    assert.equal(accessesByCat(file).length, 1);
    before[Symbol.dispose]();
    assert.deepEqual(accessesByCat(file), []);
  });

  test('has the same identity before and after', () => {
    using disk = tmpfs();
    fileIn(disk.path, 'lower/file');
    using merged = overlayOf(disk.at('lower'), disk.at('upper'), disk.at('work'));
    const before = sensor().identify(merged.at('file'));
    run('sh', ['-c', 'echo more >> "$0"', merged.at('file')]);
    assert.deepEqual(sensor().identify(merged.at('file')), before);
  });

  // The copy-up parts a hard link of the lower layer from the others: it becomes a file of its own.
  test('a file with hard links below stays watched, also when its watcher gets the new identity', () => {
    for (const deleteFirst of [false, true]) {
      using disk = tmpfs();
      linkSync(fileIn(disk.path, 'lower/file'), disk.at('lower/other'));
      using merged = overlayOf(disk.at('lower'), disk.at('upper'), disk.at('work'));
      const file = merged.at('file');
      const { targets } = sensor().sensor;
      const { identity: before, watcher } = sensor().watchFile(file);
      run('sh', ['-c', 'echo more >> "$0"', file]);
      assert.equal(accessesByCat(file).length, 1);
      const now = sensor().identify(file);
      if (deleteFirst) targets.delete(before, watcher);
      targets.add(now, watcher);
      if (!deleteFirst) targets.delete(before, watcher);
      assert.equal(accessesByCat(file).length, 1);
      targets.delete(now, watcher);
      assert.deepEqual(accessesByCat(file), []);
    }
  });
});

suite('a recycled inode number raises nothing', { skip: sensorSkip || fileSystemSkip('ext4') }, () => {
  const ATTEMPTS = 2000;

  /** Deletes the watched file and creates others until one has its number; then that one is read. */
  function recycle(directory: string): void {
    const file = fileIn(directory, 'file');
    using watched = sensor().watchFile(file);
    assert.notEqual(watched.identity.generation, 0);
    assert.equal(accessesByCat(file).length, 1);
    rmSync(file);
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const other = fileIn(directory, `other${attempt}`);
      const identity = sensor().identify(other);
      if (identity.inode !== watched.identity.inode) continue;
      assert.equal(identity.device, watched.identity.device);
      assert.notEqual(identity.generation, watched.identity.generation);
      const before = sensor().sensor.stats().recycled;
      assert.deepEqual(accessesByCat(other), []);
      assert.equal(sensor().sensor.stats().recycled, before + 1);
      // The new file, watched by itself, is one of its own; the old watch gets nothing of it.
      using again = sensor().watchFile(other);
      run('cat', [other]);
      sensor().accesses();
      assert.deepEqual(
        sensor().seen.map(({ watcher }) => watcher),
        [again.watcher],
      );
      return;
    }
    assert.fail(`inode ${watched.identity.inode} did not come back in ${ATTEMPTS} files`);
  }

  test('on ext4', () => {
    using space = new TemporaryDirectory();
    using disk = imageOf('ext4', space.path, 8);
    recycle(disk.path);
  });

  test('on overlay over ext4', { skip: fileSystemSkip('overlay') }, () => {
    using space = new TemporaryDirectory();
    using disk = imageOf('ext4', space.path, 8);
    using merged = overlayOf(disk.at('lower'), disk.at('upper'), disk.at('work'));
    recycle(merged.path);
  });

  test('on overlay with the lower layer on another file system', { skip: fileSystemSkip('overlay') }, () => {
    using space = new TemporaryDirectory();
    using lower = tmpfs();
    using disk = imageOf('ext4', space.path, 8);
    using merged = overlayOf(lower.path, disk.at('upper'), disk.at('work'));
    recycle(merged.path);
  });
});
