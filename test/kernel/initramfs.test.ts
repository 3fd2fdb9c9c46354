import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { writeInitramfs } from './initramfs.ts';

const skip = existsSync('/bin/busybox') ? false : 'needs busybox-static';

test('cpio reads the archive back: names, modes and contents of every length', { skip }, () => {
  const files = Array.from({ length: 9 }, (_, length) => ({
    path: `dir/sub-${'x'.repeat(length)}/file${length}`,
    mode: length % 2 === 0 ? 0o755 : 0o640,
    content: new Uint8Array(length).fill(65 + length),
  }));
  const directory = mkdtempSync(join(tmpdir(), 'rampart-initramfs-'));
  try {
    const options = {
      cwd: directory,
      input: writeInitramfs([{ path: 'init', mode: 0o700, content: new Uint8Array(70_000) }, ...files]),
    };
    execFileSync('/bin/busybox', ['cpio', '-i'], { ...options, stdio: ['pipe', 'pipe', 'pipe'] });
    for (const file of files) {
      assert.deepEqual(new Uint8Array(readFileSync(join(directory, file.path))), file.content);
      assert.equal(statSync(join(directory, file.path)).mode & 0o777, file.mode);
    }
    assert.equal(statSync(join(directory, 'init')).size, 70_000);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
