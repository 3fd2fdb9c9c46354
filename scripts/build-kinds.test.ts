import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';

function build(...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(import.meta.dirname, 'build-kinds.ts'), ...args],
    {
      encoding: 'utf8',
    },
  );
  assert.equal(status, 0, stderr);
  return stdout;
}

test('kinds are written once, and again only when they are asked for', () => {
  assert.match(build('--force'), /^kinds: written, \d{3} schemas$/m);
  assert.equal(build(), 'kinds: already there\n');
});
