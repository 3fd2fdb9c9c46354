import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { suite, test } from 'node:test';

import { FollowedFiles, inodeOf } from './container-files.fixture.ts';

const inode = (path: string): bigint => statSync(path, { bigint: true }).ino;

suite('a file over time', () => {
  test('absent, there, replaced by a rename, gone', async () => {
    using followed = new FollowedFiles();
    const file = followed.add('/etc/secret');
    assert.equal(file.state.kind, 'waiting');
    assert.ok('why' in file.state && file.state.why.includes('/etc does not exist'));
    mkdirSync(followed.at('root', 'etc'));
    writeFileSync(followed.at('root', 'etc', 'secret'), 'a');
    await followed.until(() => inodeOf(file) === inode(followed.at('root', 'etc', 'secret')));
    writeFileSync(followed.at('root', 'etc', 'new'), 'b');
    const replacing = inode(followed.at('root', 'etc', 'new'));
    renameSync(followed.at('root', 'etc', 'new'), followed.at('root', 'etc', 'secret'));
    await followed.until(() => inodeOf(file) === replacing);
    rmSync(followed.at('root', 'etc', 'secret'));
    await followed.until(() => file.state.kind === 'waiting');
  });

  test('the swap of ..data in a volume of a ConfigMap', async () => {
    using followed = new FollowedFiles();
    const at = (...names: string[]): string => followed.at('root', 'volume', ...names);
    for (const version of ['..one', '..two']) {
      mkdirSync(at(version), { recursive: true });
      writeFileSync(at(version, 'key'), version);
    }
    symlinkSync('..one', at('..data'));
    symlinkSync('..data/key', at('key'));
    const file = followed.add('/volume/key');
    assert.equal(inodeOf(file), inode(at('..one', 'key')));
    symlinkSync('..two', at('..data_tmp'));
    renameSync(at('..data_tmp'), at('..data'));
    await followed.until(() => inodeOf(file) === inode(at('..two', 'key')));
  });

  test('a hard link in two roots is one file, reported for each', () => {
    using followed = new FollowedFiles();
    mkdirSync(followed.at('second'));
    writeFileSync(followed.at('root', 'shared'), '');
    linkSync(followed.at('root', 'shared'), followed.at('second', 'other-name'));
    const one = followed.add('/shared');
    const two = followed.add('/other-name', { root: followed.at('second') });
    assert.equal(inodeOf(one), inodeOf(two));
    assert.notEqual(inodeOf(one), undefined);
  });

  test('refuses a path that is not a file, until it is one', async () => {
    using followed = new FollowedFiles();
    const at = (name: string): string => followed.at('root', name);
    mkdirSync(at('directory'));
    assert.equal(spawnSync('mkfifo', [at('fifo')]).status, 0);
    symlinkSync('loop', at('loop'));
    writeFileSync(at('file'), '');
    const server = createServer().listen(at('socket'));
    await new Promise((resolve) => server.once('listening', resolve));
    const refused = ['/directory', '/fifo', '/socket', '/loop', '/file/below'].map((path) =>
      followed.add(path),
    );
    server.close();
    assert.deepEqual(
      refused.map(({ state }) => state.kind),
      refused.map(() => 'refused'),
    );
    const [directory, fifo] = refused;
    assert.ok(directory && fifo);
    assert.match('why' in fifo.state ? fifo.state.why : '', /FIFO/);
    writeFileSync(at('new'), '');
    renameSync(at('new'), at('fifo'));
    await followed.until(() => fifo.state.kind === 'watched');
  });

  test('requests for one file end one by one', async () => {
    using followed = new FollowedFiles();
    const first = followed.add('/a');
    const second = followed.add('/a');
    first[Symbol.dispose]();
    writeFileSync(followed.at('root', 'a'), '');
    await followed.until(() => second.state.kind === 'watched');
    assert.equal(first.state.kind, 'waiting');
    second[Symbol.dispose]();
    assert.equal(followed.files.stats.paths, 0);
    assert.equal(followed.files.stats.watches, 0);
    using again = followed.add('/a');
    assert.equal(again.state.kind, 'watched');
  });
});

suite('creation', () => {
  test('only where nothing is, with exactly the mode asked for, and followed from then on', async () => {
    using followed = new FollowedFiles();
    const file = followed.add('/secret.txt', { create: true, modeBits: 0o444 });
    const path = followed.at('root', 'secret.txt');
    assert.equal(statSync(path).mode & 0o7777, 0o444);
    await followed.until(() => inodeOf(file) === inode(path));
  });

  test('never truncates or changes an existing file', () => {
    using followed = new FollowedFiles();
    const path = followed.at('root', 'secret.txt');
    writeFileSync(path, 'kept');
    chmodSync(path, 0o640);
    for (let time = 0; time < 3; time++) {
      using file = followed.add('/secret.txt', { create: true });
      assert.equal(inodeOf(file), inode(path));
    }
    assert.equal(readFileSync(path, 'utf8'), 'kept');
    assert.equal(statSync(path).mode & 0o7777, 0o640);
  });

  test('reports a missing directory without creating it; creates the file once it exists', async () => {
    using followed = new FollowedFiles();
    const file = followed.add('/var/lib/secret', { create: true });
    assert.match('why' in file.state ? file.state.why : '', /its directory does not exist/);
    assert.ok(!existsSync(followed.at('root', 'var')));
    mkdirSync(followed.at('root', 'var', 'lib'), { recursive: true });
    await followed.until(() => file.state.kind === 'watched');
    assert.ok(existsSync(followed.at('root', 'var', 'lib', 'secret')));
  });

  test('a file that is deleted comes back, after a pause', async () => {
    using followed = new FollowedFiles();
    const file = followed.add('/secret', { create: true });
    await followed.until(() => file.state.kind === 'watched');
    rmSync(followed.at('root', 'secret'));
    await followed.until(() => file.state.kind === 'waiting');
    assert.ok(!existsSync(followed.at('root', 'secret')));
    await followed.until(() => file.state.kind === 'watched');
  });

  test('asked for by a later request only', async () => {
    using followed = new FollowedFiles();
    const first = followed.add('/secret');
    followed.add('/secret', { create: true, modeBits: 0o600 });
    await followed.until(() => first.state.kind === 'watched');
    assert.equal(statSync(followed.at('root', 'secret')).mode & 0o7777, 0o600);
  });
});
