import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { setOf } from '../model/attributes.ts';
import type { Entry } from '../model/entry.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { entryOf, header, secretKey, temporaryDirectory } from './baseline.fixture.ts';
import { openBaseline } from './read-baseline.ts';
import { replaceFile } from './replace-file.ts';
import { writeBaseline } from './write-baseline.ts';

deepTest(
  'a writer that is killed at any moment leaves the whole old baseline or the whole new one',
  async () => {
    using directory = temporaryDirectory();
    const path = join(directory.path, 'baseline');
    const writer = join(import.meta.dirname, 'endless-writer.fixture.ts');
    let last = -1;
    for (let round = 0; round < 25; round++) {
      const child = spawn(process.execPath, [writer, path], { stdio: ['ignore', 'pipe', 'inherit'] });
      const exited = once(child, 'exit');
      await once(child.stdout, 'data');
      await setTimeout(Math.random() * 60);
      child.kill('SIGKILL');
      await exited;
      await using baseline = await openBaseline(path, secretKey);
      assert.equal(baseline.counts.entries, 3000);
      const version = Number(baseline.header.configDigest);
      for await (const batch of baseline.entries()) {
        for (const entry of batch) assert.equal(entry.linkCount, version);
      }
      last = version;
    }
    assert.ok(last >= 0);
    // Files left by killed processes are removed by the next write.
    writeFileSync(join(directory.path, '.baseline.new.999999999.abc'), 'left');
    writeFileSync(join(directory.path, '.baseline.new.1.abc'), 'of a living process');
    await writeBaseline({ path, key: secretKey, header, entries: [] });
    assert.deepEqual(readdirSync(directory.path).toSorted(), ['.baseline.new.1.abc', 'baseline']);
  },
);

test('a full disk leaves the old baseline, and says so', async (t) => {
  using directory = temporaryDirectory();
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', directory.path], { stdio: 'pipe' });
  } catch (error) {
    return t.skip(`cannot mount a tmpfs: ${String(error)}`);
  }
  try {
    const path = join(directory.path, 'baseline');
    await writeBaseline({ path, key: secretKey, header, entries: [[entryOf({ path: '/a' })]] });
    const before = readFileSync(path);
    const many = (from: number): Entry[] =>
      Array.from({ length: 20_000 }, (_, i) =>
        entryOf({
          path: `/${String(from + i).padStart(9, '0')}`,
          attributes: setOf('sha256'),
          sha256: Buffer.alloc(32, i),
        }),
      );
    await assert.rejects(
      writeBaseline({ path, key: secretKey, header, entries: [many(0), many(20_000)] }),
      (error: unknown) => {
        assert.ok(error instanceof RampartError);
        assert.equal(error.code, errorCodes.FULL);
        assert.match(error.message, /no space left/);
        assert.match(error.message, /previous file is unchanged/);
        return true;
      },
    );
    assert.deepEqual(readFileSync(path), before);
    assert.deepEqual(readdirSync(directory.path), ['baseline']);
  } finally {
    execFileSync('umount', [directory.path]);
  }
});

test('a failure of the caller or the file system leaves the old file', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'file');
  await replaceFile(path, async (file) => void (await file.write('old')));
  assert.equal(statSync(path).mode & 0o777, 0o600);
  await assert.rejects(
    replaceFile(path, async (file) => {
      await file.write('half');
      throw new Error('mine');
    }),
    /^Error: mine$/,
  );
  assert.equal(readFileSync(path, 'utf8'), 'old');
  assert.deepEqual(readdirSync(directory.path), ['file']);
  await assert.rejects(
    replaceFile(join(directory.path, 'no', 'file'), () => Promise.resolve()),
    (error: unknown) => error instanceof RampartError && error.code === errorCodes.SYSTEM,
  );
  const both = await Promise.all(
    ['one', 'other'].map((text) => replaceFile(path, async (file) => void (await file.write(text)))),
  );
  assert.equal(both.length, 2);
  assert.match(readFileSync(path, 'utf8'), /^(one|other)$/);
});
