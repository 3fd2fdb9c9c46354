/** Killed at any moment, a baseline is the old or the new one. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { scaled } from '../../../lib/testing/depth.fixture.ts';
import { withoutAide } from '../aide.fixture.ts';
import { patience, TestHost } from './job.fixture.ts';
import { AideProvider } from './provider.ts';

const loop = join(import.meta.dirname, 'init-loop.fixture.ts');

test(
  'kill -9 leaves a baseline that fits the files, and nothing that is not cleaned up',
  { skip: withoutAide },
  async () => {
    using host = new TestHost();
    for (let at = 0; at < 300; at++) host.write(`etc/f-${at}`, String(at));
    const job = host.job('/hostroot/etc ftype+p+u+g+n+s+sha256\n');
    const provider = new AideProvider();
    await provider.init(job, patience());
    for (let round = 0; round < scaled(8, 1); round++) {
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

test('AIDE does not outlive the one who would read its report', { skip: withoutSetpriv() }, async () => {
  using host = new TestHost();
  const pidFile = host.beside('pid');
  const program = host.script(
    'aide',
    `case "$1" in --version) echo 'AIDE 0.18.3'; exit;; esac\necho $$ > ${pidFile}.new; mv ${pidFile}.new ${pidFile}; exec sleep 1000`,
  );
  const child = spawn(process.execPath, [loop, host.root, host.directory, program], { stdio: 'ignore' });
  const closed = once(child, 'close');
  try {
    while (!fs.existsSync(pidFile)) await delay(5);
  } finally {
    child.kill('SIGKILL');
    await closed;
  }
  const pid = fs.readFileSync(pidFile, 'utf8').trim();
  const endMs = performance.now() + 30_000;
  // A process that is dead and not yet waited for is there, too.
  const isAlive = (): boolean => {
    try {
      return !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
    } catch {
      return false;
    }
  };
  try {
    while (isAlive() && performance.now() < endMs) await delay(10);
    assert.equal(isAlive(), false);
  } finally {
    if (isAlive()) process.kill(Number(pid), 'SIGKILL');
  }
});

function withoutSetpriv(): string | false {
  return spawnSync('setpriv', ['--version']).status === 0 ? false : 'needs setpriv (util-linux)';
}
