import assert from 'node:assert/strict';
import { existsSync, linkSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { fstatSync } from 'node:fs';
import { test } from 'node:test';

import { AT_FDCWD, openat2, openFlags, SystemCallError, type Fd } from '../../ebpf/libc.ts';
import { RampartError } from '../../errors/errors.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { createInRoot, openInRoot } from './resolve.ts';

/** A root with `/etc/shadow` in it, beside a directory that nothing may reach. */
function layout(directory: TemporaryDirectory): Fd {
  mkdirSync(directory.at('root', 'etc'), { recursive: true });
  mkdirSync(directory.at('outside'));
  writeFileSync(directory.at('root', 'etc', 'shadow'), 'inside');
  writeFileSync(directory.at('outside', 'secret'), 'outside');
  return openat2(AT_FDCWD, directory.at('root'), { flags: openFlags.PATH | openFlags.DIRECTORY });
}

function inode(root: Fd, path: string): bigint {
  using fd = openInRoot(root, path);
  return fstatSync(fd.number, { bigint: true }).ino;
}

function errnoOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof SystemCallError) return error.errno;
    throw error;
  }
  return 'none';
}

test('every way of writing a path ends inside the root', () => {
  using directory = new TemporaryDirectory();
  using root = layout(directory);
  const shadow = statSync(directory.at('root', 'etc', 'shadow'), { bigint: true }).ino;
  symlinkSync('/etc/shadow', directory.at('root', 'absolute'));
  symlinkSync('../../../../etc/shadow', directory.at('root', 'etc', 'climbing'));
  symlinkSync('/etc', directory.at('root', 'through'));
  linkSync(directory.at('root', 'etc', 'shadow'), directory.at('root', 'hard'));
  for (const path of [
    '/etc/shadow',
    'etc/shadow',
    '../../../../etc/shadow',
    '/absolute',
    '/etc/climbing',
    '/through/shadow',
    '/through/../../../etc/shadow',
    '/hard',
  ]) {
    assert.equal(inode(root, path), shadow, path);
  }
});

test('paths outside the root do not exist', () => {
  using directory = new TemporaryDirectory();
  using root = layout(directory);
  symlinkSync(directory.at('outside'), directory.at('root', 'out'));
  symlinkSync('../outside/secret', directory.at('root', 'up'));
  assert.equal(
    errnoOf(() => openInRoot(root, '/out/secret')),
    'ENOENT',
  );
  assert.equal(
    errnoOf(() => openInRoot(root, '/up')),
    'ENOENT',
  );
  assert.equal(
    errnoOf(() => openInRoot(root, '../outside/secret')),
    'ENOENT',
  );
});

test('magic links are refused', () => {
  using root = openat2(AT_FDCWD, '/', { flags: openFlags.PATH | openFlags.DIRECTORY });
  assert.equal(
    errnoOf(() => openInRoot(root, '/proc/self/exe')),
    'ELOOP',
  );
});

test('the options: the link itself, directories only', () => {
  using directory = new TemporaryDirectory();
  using root = layout(directory);
  symlinkSync('/nowhere', directory.at('root', 'dangling'));
  using link = openInRoot(root, '/dangling', { noFollow: true });
  assert.ok(fstatSync(link.number).isSymbolicLink());
  assert.equal(
    errnoOf(() => openInRoot(root, '/etc/shadow', { directory: true })),
    'ENOTDIR',
  );
});

test('a NUL does not cut the path short', () => {
  using directory = new TemporaryDirectory();
  using root = layout(directory);
  assert.throws(() => openInRoot(root, '/etc/shadow\0.txt'), { code: 'RAMPART_INPUT' });
  assert.throws(() => createInRoot(root, '/etc/new\0.txt', 0o400), { code: 'RAMPART_INPUT' });
});

test('creates only what is absent, with exactly the mode asked for', () => {
  using directory = new TemporaryDirectory();
  using root = layout(directory);
  const umask = process.umask(0o077);
  try {
    assert.equal(createInRoot(root, '/etc/canary', 0o644), true);
  } finally {
    process.umask(umask);
  }
  const path = directory.at('root', 'etc', 'canary');
  assert.equal(statSync(path).mode & 0o7777, 0o644);
  writeFileSync(path, 'kept');
  assert.equal(createInRoot(root, '/etc/canary', 0o400), false);
  assert.equal(readFileSync(path, 'utf8'), 'kept');
  assert.equal(statSync(path).mode & 0o7777, 0o644);
});

test('never creates outside the root', () => {
  using directory = new TemporaryDirectory();
  using root = layout(directory);
  const outside = directory.at('outside', 'made');
  symlinkSync(directory.at('outside'), directory.at('root', 'out')); // an absolute link as parent
  symlinkSync('../outside', directory.at('root', 'up')); // a climbing link as parent
  symlinkSync(outside, directory.at('root', 'dangling')); // a dangling link at the end
  symlinkSync('/etc/made', directory.at('root', 'inward')); // even when it dangles inside
  assert.equal(
    errnoOf(() => createInRoot(root, '/out/made', 0o400)),
    'ENOENT',
  );
  assert.equal(
    errnoOf(() => createInRoot(root, '/up/made', 0o400)),
    'ENOENT',
  );
  assert.equal(
    errnoOf(() => createInRoot(root, '../outside/made', 0o400)),
    'ENOENT',
  );
  assert.equal(createInRoot(root, '/dangling', 0o400), false);
  assert.equal(createInRoot(root, '/inward', 0o400), false);
  assert.equal(createInRoot(root, '../../made', 0o400), true);
  assert.ok(existsSync(directory.at('root', 'made')));
  assert.ok(!existsSync(outside));
  assert.ok(!existsSync(directory.at('root', 'etc', 'made')));
  assert.ok(!existsSync(directory.at('made')));
});

test('an absolute link as parent creates inside the root', () => {
  using directory = new TemporaryDirectory();
  using root = layout(directory);
  symlinkSync('/etc', directory.at('root', 'config'));
  assert.equal(createInRoot(root, '/config/made', 0o400), true);
  assert.ok(existsSync(directory.at('root', 'etc', 'made')));
});

test('a bad mode is refused before anything happens', () => {
  using directory = new TemporaryDirectory();
  using root = layout(directory);
  for (const mode of [-1, 0o10000, 1.5, Number.NaN]) {
    assert.throws(() => createInRoot(root, '/etc/bad', mode), RampartError);
  }
  assert.ok(!existsSync(directory.at('root', 'etc', 'bad')));
});
