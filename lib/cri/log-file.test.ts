import assert from 'node:assert/strict';
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, suite, test } from 'node:test';

import { type ErrorCode, errorCodes, RampartError } from '../errors/errors.ts';
import { openLogFile } from './log-file.ts';

suite('log files', () => {
  let directory = '';
  let path = '';

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'rampart-log-'));
    mkdirSync(join(directory, 'pod/container'), { recursive: true });
    path = join(directory, 'pod/container/0.log');
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  async function read(): Promise<string> {
    await using file = await openLogFile(path);
    return await file.readFile('utf8');
  }

  suite('files that are not logs are not read', () => {
    const refused = (code: ErrorCode, words: RegExp) => (error: unknown) =>
      error instanceof RampartError && error.code === code && words.test(error.message);

    const cases: readonly (readonly [what: string, make: () => void, code: ErrorCode, words: RegExp])[] = [
      ['none', () => undefined, errorCodes.NOT_FOUND, /failed to open log file ".*0\.log"/],
      ['a symbolic link', () => symlinkSync('/etc/passwd', path), errorCodes.SYSTEM, /symbolic link/],
      ['a directory', () => mkdirSync(path), errorCodes.SYSTEM, /not a regular file/],
      [
        'a hard link to something else',
        () => {
          writeFileSync(join(directory, 'secret'), 'x');
          linkSync(join(directory, 'secret'), path);
        },
        errorCodes.SYSTEM,
        /more than one hard link/,
      ],
      [
        'a directory of the container that leads elsewhere',
        () => {
          mkdirSync(join(directory, 'other'));
          writeFileSync(join(directory, 'other/0.log'), 'secret');
          rmSync(join(directory, 'pod/container'), { recursive: true });
          symlinkSync('../other', join(directory, 'pod/container'));
        },
        errorCodes.SYSTEM,
        /leads elsewhere/,
      ],
    ];
    for (const [what, make, code, words] of cases) {
      test(what, async () => {
        make();
        await assert.rejects(read(), refused(code, words));
      });
    }

    test('the directory of all logs may be a link', async () => {
      writeFileSync(path, 'a\n');
      symlinkSync('.', join(directory, 'logs'));
      path = join(directory, 'logs/pod/container/0.log');
      assert.equal(await read(), 'a\n');
    });
  });
});
