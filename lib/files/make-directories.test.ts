import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { makeDirectories } from './make-directories.ts';

test('directories are made with those above them, for their owner only, and what is there stays', () => {
  const top = mkdtempSync(join(tmpdir(), 'rampart-directories-'));
  try {
    const path = join(top, 'a/b/c');
    makeDirectories(path);
    makeDirectories(`${path}/`);
    assert.deepEqual(
      [path, join(top, 'a')].map((one) => statSync(one).mode & 0o777),
      [0o700, 0o700],
    );
    writeFileSync(join(top, 'file'), '');
    assert.throws(() => makeDirectories(join(top, 'file')), { code: 'EEXIST' });
    assert.throws(() => makeDirectories(join(top, 'file/below')), { code: 'ENOTDIR' });
  } finally {
    rmSync(top, { recursive: true });
  }
});

test('a path where no directory can exist is refused at once', () => {
  for (const path of ['/proc/rampart', '/proc/rampart/below/it', '/sys/rampart']) {
    assert.throws(
      () => makeDirectories(path),
      ({ code }: NodeJS.ErrnoException) => ['ENOENT', 'EPERM', 'EROFS', 'EACCES'].includes(code ?? ''),
    );
  }
});
