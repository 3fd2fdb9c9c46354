import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, suite, test } from 'node:test';

import { type ErrorCode, errorCodes, RampartError } from '../errors/errors.ts';
import { lockFile } from './lock.ts';

suite('a lock', () => {
  let directory = '';
  let path = '';
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'rampart-lock-'));
    path = join(directory, 'lock');
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  function refusal(code: ErrorCode, words: RegExp) {
    return (error: unknown): boolean =>
      error instanceof RampartError && error.code === code && words.test(error.message);
  }

  test('one holder in a process, until it lets go', () => {
    {
      using lock = lockFile(path);
      assert.equal(lock.path, path);
      assert.throws(() => lockFile(path), refusal(errorCodes.IN_USE, /holds it/));
      // The refused attempt has closed a descriptor of the file, which must not drop what is held (fcntl(2)).
      assert.throws(() => lockFile(path), refusal(errorCodes.IN_USE, /holds it/));
      lock[Symbol.dispose]();
    }
    using again = lockFile(path);
    assert.equal(again.path, path);
  });

  test('another process is named, and what it held is free when it is killed', async () => {
    const script = `
    import { lockFile } from ${JSON.stringify(new URL('./lock.ts', import.meta.url).href)};
    globalThis.held = lockFile(${JSON.stringify(path)});
    process.stdout.write('held');
    setInterval(() => {}, 1000);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      await once(child.stdout, 'data');
      assert.throws(
        () => lockFile(path),
        refusal(errorCodes.IN_USE, new RegExp(`process ${child.pid} holds`)),
      );
    } finally {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    lockFile(path)[Symbol.dispose]();
  });

  test('the file is its owner’s alone, stays, and stays empty', () => {
    lockFile(path)[Symbol.dispose]();
    assert.equal(readFileSync(path).length, 0);
    assert.equal(statSync(path).mode & 0o777, 0o600);
  });

  test('an impossible lock is reported with its path', () => {
    const absent = join(directory, 'absent', 'lock');
    assert.throws(
      () => lockFile(absent),
      refusal(errorCodes.SYSTEM, /cannot lock .*absent\/lock.*must exist/),
    );
    writeFileSync(path, 'no database, and longer than its header may be wrong'.repeat(20));
    assert.throws(() => lockFile(path), refusal(errorCodes.CORRUPT, /cannot lock/));
  });
});
