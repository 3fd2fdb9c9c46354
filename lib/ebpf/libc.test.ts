import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import {
  AT_FDCWD,
  errnoName,
  Fd,
  fileTypeOf,
  openat2,
  openFlags,
  resolveFlags,
  SystemCallError,
  tryOpenat2,
} from './libc.ts';

test('every errno has its name', () => {
  for (const [name, number] of Object.entries(constants.errno)) {
    assert.equal(constants.errno[errnoName(number) as keyof typeof constants.errno], number, name);
  }
  assert.equal(errnoName(2), 'ENOENT');
  assert.equal(errnoName(11), 'EAGAIN');
  assert.equal(errnoName(4711), 'errno 4711');
  assert.equal(errnoName(4001), 'LIBBPF_ERRNO__FORMAT');
});

test('a failing call names the path, the errno and its text', () => {
  const expected = new SystemCallError('cannot open /no/such/file', constants.errno.ENOENT);
  assert.match(expected.message, /^cannot open \/no\/such\/file: no such file or directory \(ENOENT\)$/);
  assert.equal(expected.code, 'RAMPART_SYSTEM');
  assert.throws(() => openat2(AT_FDCWD, '/no/such/file', { flags: openFlags.PATH }), {
    message: expected.message,
    errno: 'ENOENT',
  });
});

test('a descriptor is closed once and then refused', () => {
  const fd = openat2(AT_FDCWD, '/', { flags: openFlags.PATH });
  const number = fd.number;
  assert.equal(fs.readlinkSync(`/proc/self/fd/${number}`), '/');
  fd[Symbol.dispose]();
  assert.throws(() => fd.number, { code: 'RAMPART_DISPOSED' });
  // Another file takes the number; disposing again must not close it.
  using other = openat2(AT_FDCWD, '/proc', { flags: openFlags.PATH });
  assert.equal(other.number, number);
  fd[Symbol.dispose]();
  assert.equal(fs.readlinkSync(`/proc/self/fd/${number}`), '/proc');
  assert.ok(other instanceof Fd);
});

test('a path of any length that the kernel accepts is opened literally', () => {
  const directory = fs.mkdtempSync(join(tmpdir(), 'libc-'));
  try {
    const flags = openFlags.PATH;
    // 254 bytes: two for each character.
    const longest = 'ä'.repeat(127);
    fs.writeFileSync(join(directory, longest), '');
    using root = openat2(AT_FDCWD, directory, { flags });
    using found = openat2(root, longest, { flags });
    assert.equal(fs.readlinkSync(`/proc/self/fd/${found.number}`), join(directory, longest));
    // The previous content was longer.
    fs.writeFileSync(join(directory, 'b'), '');
    using short = openat2(root, 'b', { flags });
    assert.equal(fs.readlinkSync(`/proc/self/fd/${short.number}`), join(directory, 'b'));
    using bytes = new Fd(tryOpenat2(root, Buffer.from('b\0'), { flags }));
    assert.equal(fs.readlinkSync(`/proc/self/fd/${bytes.number}`), join(directory, 'b'));
    // PATH_MAX is 4096 with the NUL.
    using same = openat2(root, `${'./'.repeat(2047)}b`, { flags });
    assert.equal(fs.readlinkSync(`/proc/self/fd/${same.number}`), join(directory, 'b'));
    const tooLong = -constants.errno.ENAMETOOLONG;
    assert.equal(tryOpenat2(root, `${'./'.repeat(2047)}bb`, { flags }), tooLong);
    assert.equal(tryOpenat2(root, `${'./'.repeat(2046)}ää`, { flags }), tooLong);
    assert.equal(tryOpenat2(root, Buffer.from(`${'./'.repeat(2048)}b\0`), { flags }), tooLong);
    assert.equal(tryOpenat2(root, 'x'.repeat(100_000), { flags }), tooLong);
  } finally {
    fs.rmSync(directory, { recursive: true });
  }
});

test('the type of a file is that of fstat, a symbolic link its own', () => {
  const directory = fs.mkdtempSync(join(tmpdir(), 'libc-'));
  try {
    fs.writeFileSync(join(directory, 'file'), '');
    fs.symlinkSync('file', join(directory, 'link'));
    execFileSync('mkfifo', [join(directory, 'fifo')]);
    const types: string[] = [];
    for (const path of [
      directory,
      '/dev/null',
      ...['file', 'link', 'fifo'].map((name) => join(directory, name)),
    ]) {
      using fd = openat2(AT_FDCWD, path, { flags: openFlags.PATH | openFlags.NOFOLLOW });
      assert.equal(fileTypeOf(fd.number), fs.fstatSync(fd.number).mode & fs.constants.S_IFMT, path);
      types.push(fileTypeOf(fd.number).toString(8));
    }
    assert.deepEqual(types, ['40000', '20000', '100000', '120000', '10000']);
    assert.throws(() => fileTypeOf(-1), { errno: 'EBADF' });
  } finally {
    fs.rmSync(directory, { recursive: true });
  }
});

test('a link with .. is resolved under a root while others rename', async () => {
  const root = fs.mkdtempSync(join(tmpdir(), 'rampart-libc-'));
  // The kernel gives up when anything on the machine is renamed meanwhile. Two that rename keep it from ever being quiet.
  const renamers = ['x', 'y'].map((name) => {
    fs.writeFileSync(join(root, name), '');
    const words = `const {renameSync:r}=require('fs');for(;;){r('${name}','${name}2');r('${name}2','${name}')}`;
    return spawn(process.execPath, ['-e', words], { cwd: root, stdio: 'ignore' });
  });
  try {
    fs.writeFileSync(join(root, 'file'), '');
    fs.mkdirSync(join(root, 'a/b/c'), { recursive: true });
    fs.symlinkSync(`${'../'.repeat(40)}a/b/c/../../../file`, join(root, 'a/link'));
    await Promise.all(renamers.map((renamer) => once(renamer, 'spawn')));
    using top = openat2(AT_FDCWD, root, { flags: openFlags.PATH | openFlags.DIRECTORY });
    const look = { flags: openFlags.PATH, resolve: resolveFlags.IN_ROOT };
    for (let done = 0; done < 100_000; done++) {
      const fd = tryOpenat2(top, 'a/link', look);
      assert.ok(fd >= 0, errnoName(-fd));
      fs.closeSync(fd);
    }
  } finally {
    await Promise.all(
      renamers.map(async (renamer) => {
        renamer.kill('SIGKILL');
        await once(renamer, 'close');
      }),
    );
    fs.rmSync(root, { recursive: true });
  }
});
