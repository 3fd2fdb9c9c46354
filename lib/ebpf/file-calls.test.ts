import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { errno, fileCalls, libc } from './ffi.ts';
import { AT_FDCWD, errnoName, FixedBuffer, openFlags } from './libc.ts';

const directory = fs.mkdtempSync(join(tmpdir(), 'file-calls-'));
after(() => fs.rmSync(directory, { recursive: true }));
const text = new FixedBuffer(4096);
const data = new FixedBuffer(4096);

test('calls with addresses do what the same calls of Node do', () => {
  const file = join(directory, 'a');
  fs.writeFileSync(file, 'content');
  fs.symlinkSync('target', join(directory, 'link'));

  text.writeText(directory);
  const dirFd = fileCalls.openat(AT_FDCWD, text.address, openFlags.DIRECTORY | openFlags.CLOEXEC, 0);
  assert.ok(dirFd >= 0);
  try {
    const listed = fileCalls.getdents64(dirFd, data.address, data.bytes.length);
    const names: string[] = [];
    // struct linux_dirent64: inode, offset, length of the record, type, name.
    for (let at = 0; at < listed; at += data.bytes.readUInt16LE(at + 16)) {
      const from = at + 19;
      names.push(data.bytes.toString('latin1', from, data.bytes.indexOf(0, from)));
    }
    assert.deepEqual(names.sort(), ['.', '..', 'a', 'link']);

    text.writeText('a');
    const fd = fileCalls.openat(dirFd, text.address, openFlags.CLOEXEC | openFlags.NOATIME, 0);
    assert.equal(fileCalls.read(fd, data.address, 100), 7);
    assert.equal(data.bytes.toString('latin1', 0, 7), 'content');
    assert.equal(fileCalls.fstatfs(fd, data.address), 0);
    assert.equal(Number(data.bytes.readBigInt64LE(0)), fs.statfsSync(file).type);
    assert.equal(fileCalls.statx(dirFd, text.address, 0, 0x7ff, data.address), 0);
    assert.equal(data.bytes.readBigUInt64LE(32), fs.statSync(file, { bigint: true }).ino);
    assert.equal(fileCalls.flistxattr(fd, data.address, 100), 0);
    text.writeText('user.none');
    assert.equal(fileCalls.fgetxattr(fd, text.address, data.address, 100), -1);
    assert.match(errnoName(errno()), /ENODATA|EOPNOTSUPP/);
    libc.close(fd);

    text.writeText('link');
    assert.equal(fileCalls.readlinkat(dirFd, text.address, data.address, 100), 6);
    text.writeText(join(directory, 'link'));
    assert.equal(fileCalls.llistxattr(text.address, data.address, 100), 0);
    text.writeText('user.none', 1000);
    assert.equal(fileCalls.lgetxattr(text.address, text.address + 1000, data.address, 100), -1);
    // A symbolic link has no attributes of users (xattr(7)).
    assert.match(errnoName(errno()), /ENODATA|EPERM|EOPNOTSUPP/);
  } finally {
    libc.close(dirFd);
  }
});

test('a text that has no room with its NUL is refused', () => {
  const small = new FixedBuffer(4);
  small.writeText('abc');
  assert.equal(small.bytes[3], 0);
  assert.throws(() => small.writeText('abcd'), RangeError);
});
