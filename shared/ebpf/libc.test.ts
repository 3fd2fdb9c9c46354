import assert from 'node:assert/strict';
import { readlinkSync } from 'node:fs';
import { constants } from 'node:os';
import { test } from 'node:test';

import { AT_FDCWD, errnoName, Fd, openat2, openFlags, SystemCallError } from './libc.ts';

test('every errno has its name', () => {
  for (const [name, number] of Object.entries(constants.errno)) {
    assert.equal(constants.errno[errnoName(number) as keyof typeof constants.errno], number, name);
  }
  assert.equal(errnoName(2), 'ENOENT');
  assert.equal(errnoName(11), 'EAGAIN');
  assert.equal(errnoName(4711), 'errno 4711');
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
  assert.equal(readlinkSync(`/proc/self/fd/${number}`), '/');
  fd[Symbol.dispose]();
  assert.throws(() => fd.number, { code: 'RAMPART_DISPOSED' });
  // Another file takes the number; disposing again must not close it.
  using other = openat2(AT_FDCWD, '/proc', { flags: openFlags.PATH });
  assert.equal(other.number, number);
  fd[Symbol.dispose]();
  assert.equal(readlinkSync(`/proc/self/fd/${number}`), '/proc');
  assert.ok(other instanceof Fd);
});
