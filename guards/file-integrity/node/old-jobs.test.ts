import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../database/baseline.fixture.ts';
import { jobDirectoryName, removeOldJobs } from './old-jobs.ts';

test('removes only files unchanged for a month that belong to no job', async () => {
  using directory = temporaryDirectory();
  const day = 24 * 60 * 60_000;
  const nowMs = Date.UTC(2026, 10, 21);
  const make = (name: string, ageDays: number): void => {
    const path = join(directory.path, name);
    mkdirSync(path);
    writeFileSync(join(path, 'baseline'), 'x');
    const atS = (nowMs - ageDays * day) / 1000;
    utimesSync(path, atS, atS);
  };
  make(jobDirectoryName('ns', 'old'), 31);
  make(jobDirectoryName('ns', 'young'), 29);
  make(jobDirectoryName('ns', 'in.use'), 300);
  make('something-else', 300);
  // Names as long as they may be.
  const longest = jobDirectoryName('n'.repeat(63), `${'very.'.repeat(50)}ong`);
  make(longest, 31);
  assert.equal(longest.length, 255);
  assert.notEqual(longest, jobDirectoryName('n'.repeat(63), `${'very.'.repeat(50)}one`));
  const removed = await removeOldJobs(directory.path, new Set([jobDirectoryName('ns', 'in.use')]), nowMs);
  assert.deepEqual(removed.toSorted(), [longest, jobDirectoryName('ns', 'old')].toSorted());
  assert.equal(readdirSync(directory.path).length, 3);
});
