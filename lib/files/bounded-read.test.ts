import assert from 'node:assert/strict';
import { closeSync, ftruncateSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { errorCodes } from '../errors/errors.ts';
import { readBounded, readStart } from './bounded-read.ts';

test('reads files up to the limit, and a sparse file costs nothing', () => {
  const top = mkdtempSync(join(tmpdir(), 'rampart-bounded-'));
  const fd = openSync(join(top, 'file'), 'w+');
  try {
    assert.equal(readBounded(fd, 4, 'it').length, 0);
    writeSync(fd, 'text');
    assert.equal(readBounded(fd, 4, 'it').toString(), 'text');
    assert.throws(() => readBounded(fd, 3, 'the file x'), {
      code: errorCodes.LIMIT,
      message: 'the file x is not read: it has more than 3 bytes, or is growing',
    });
    ftruncateSync(fd, 8 * 1024 ** 4);
    assert.throws(() => readBounded(fd, 1024, 'it'), { code: errorCodes.LIMIT });
  } finally {
    closeSync(fd);
    rmSync(top, { recursive: true });
  }
});

test('reads only the first bytes of a file without a size', () => {
  const fd = openSync('/dev/zero', 'r');
  try {
    assert.deepEqual(readStart(fd, 100_000), Buffer.alloc(100_000));
  } finally {
    closeSync(fd);
  }
  const status = openSync('/proc/self/status', 'r');
  try {
    assert.match(readStart(status, 4096).toString(), /^Name:/);
  } finally {
    closeSync(status);
  }
});
