/** Killed at any moment, a baseline is the old or the new one. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { withoutAide } from '../aide.fixture.ts';
import { patience, TestHost } from './job.fixture.ts';
import { AideProvider } from './provider.ts';

const loop = new URL('init-loop.fixture.ts', import.meta.url).pathname;

test(
  'kill -9 leaves a baseline that fits the files, and nothing that is not cleaned up',
  { skip: withoutAide },
  async () => {
    using host = new TestHost();
    for (let at = 0; at < 300; at++) host.write(`etc/f-${at}`, String(at));
    const job = host.job('/hostroot/etc ftype+p+u+g+n+s+sha256\n');
    const provider = new AideProvider();
    await provider.init(job, patience());
    for (let round = 0; round < 12; round++) {
      const child = spawn(process.execPath, [loop, host.root, host.directory], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const closed = once(child, 'close');
      try {
        await once(child.stdout, 'data');
        await delay(Math.random() * 150);
      } finally {
        child.kill('SIGKILL');
        await closed;
      }
      assert.equal(await provider.state(job), 'ready');
      const { report } = await provider.check(job, patience());
      assert.deepEqual(report.changes, []);
      assert.equal(report.counts.total, 301);
    }
    await provider.init(job, patience());
    const names = fs.readdirSync(job.directory).map((name) => name.replace(/\d+-[0-9a-f]{12}/, 'ID'));
    assert.deepEqual(names.toSorted(), [
      ...['accepted.log', 'aide.baseline', 'aide.baseline.ID', 'aide.baseline.ID'],
      ...['aide.db.ID.gz', 'aide.db.ID.gz', 'aide.db.ID.gz', 'aide.last-baseline'],
    ]);
  },
);
