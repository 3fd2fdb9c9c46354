// File systems that are mounted in, below and over followed directories.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { fileSystemSkip, run } from '../file-systems.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { until } from '../../testing/until.fixture.ts';
import { TrackingDirectories } from './directory-tracker.fixture.ts';

/** A directory with `d/a` and `d/sub/b`; unmounts what is left. */
class Root extends TemporaryDirectory {
  readonly #mounts: string[] = [];

  constructor() {
    super();
    mkdirSync(this.at('d/sub'), { recursive: true });
    for (const file of ['d/a', 'd/sub/b']) writeFileSync(this.at(file), file);
  }

  mount(path: string, ...args: readonly string[]): void {
    run('mount', [...args, this.at(path)]);
    this.#mounts.push(path);
  }

  /** Not lazily: nothing that follows it may keep a file system busy. */
  unmount(path: string): void {
    run('umount', [this.at(path)]);
    this.#mounts.splice(this.#mounts.indexOf(path), 1);
  }

  override [Symbol.dispose](): void {
    for (const path of this.#mounts.toReversed()) run('umount', ['--lazy', this.at(path)]);
    super[Symbol.dispose]();
  }
}

const tmpfs = ['-t', 'tmpfs', '-o', 'size=1m', 'rampart-test'];

suite('mounts and followed directories', { skip: fileSystemSkip('tmpfs') }, () => {
  test('a file system below: its files come, those that it covers go, and come back', async () => {
    using root = new Root();
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d');
    using entries = await tracking.follow(root.path, '/d', { recursive: false });
    root.mount('d/sub', ...tmpfs);
    await below.untilPaths('/d/a');
    mkdirSync(root.at('d/sub/deep'));
    writeFileSync(root.at('d/sub/deep/c'), '');
    await below.untilPaths('/d/a', '/d/sub/deep/c');
    assert.deepEqual(entries.paths(), ['/d/a']);
    assert.deepEqual(below.unwatched, { files: 0, directories: 0 });
    root.unmount('d/sub');
    await below.untilPaths('/d/a', '/d/sub/b');
    assert.equal(tracking.tracker.watches, 2);
  });

  test('a file system over the directory itself', async () => {
    using root = new Root();
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d');
    root.mount('d', ...tmpfs);
    await below.untilPaths();
    writeFileSync(root.at('d/new'), '');
    await below.untilPaths('/d/new');
    root.unmount('d');
    await below.untilPaths('/d/a', '/d/sub/b');
  });

  test('a directory and a file that are bound there, from wherever they are', async () => {
    using root = new Root();
    using other = new Root();
    mkdirSync(root.at('d/bound'));
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d');
    root.mount('d/bound', '--bind', other.at('d'));
    await below.untilPaths('/d/a', '/d/bound/a', '/d/bound/sub/b', '/d/sub/b');
    writeFileSync(other.at('d/sub/late'), '');
    await until('what comes in it', () => below.paths().includes('/d/bound/sub/late'));
    root.unmount('d/bound');
    await below.untilPaths('/d/a', '/d/sub/b');
    const [covered] = below.watched.keys();
    root.mount('d/a', '--bind', other.at('d/a'));
    await until('the covered file is dropped', () => below.removed.includes(covered ?? ''));
    assert.deepEqual(below.paths(), ['/d/a', '/d/sub/b']);
    root.unmount('d/a');
    await until('it is watched again', () => below.watched.has(covered ?? ''));
  });

  test('the directory bound below itself: its files are watched once', async () => {
    using root = new Root();
    mkdirSync(root.at('d/again'));
    writeFileSync(root.at('d/again/x'), '');
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d');
    const before = [...below.watched.keys()];
    root.mount('d/again', '--bind', root.at('d'));
    await below.untilPaths('/d/a', '/d/again/again/x', '/d/sub/b');
    writeFileSync(root.at('d/again/sub/c'), '');
    await until('a new one', () => below.watched.size === 4);
    root.unmount('d/again');
    await below.untilPaths('/d/a', '/d/again/x', '/d/sub/b', '/d/sub/c');
    for (const key of before) assert.ok(below.watched.has(key));
  });

  test('procfs below has no files', async () => {
    using root = new Root();
    mkdirSync(root.at('d/proc'));
    using tracking = new TrackingDirectories();
    using below = await tracking.follow(root.path, '/d');
    root.mount('d/proc', '-t', 'proc', 'rampart-test');
    await until('it is left', () => tracking.tracker.watches === 2);
    assert.deepEqual(below.paths(), ['/d/a', '/d/sub/b']);
  });
});
