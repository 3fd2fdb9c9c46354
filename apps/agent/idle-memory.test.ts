import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { suite, test } from 'node:test';

const module = JSON.stringify(import.meta.resolve('./idle-memory.ts'));

/**
 * Allocates 64 MiB, drops them, waits; prints the resident MiB with them and when they are gone, at most a
 * minute later.
 */
const program = `
  import { setTimeout as sleep } from 'node:timers/promises';
  const { returnMemoryWhenIdle } = await import(${module});
  let held = Array.from({ length: 64 * 16 }, (_, i) => Array.from({ length: 8192 }, () => i + 0.5));
  const mib = () => process.memoryUsage.rss() / 2 ** 20;
  const before = mib();
  if (held.length > 0) held = undefined;
  let kept = Array.from({ length: 64 }, (_, i) => new Uint8Array(1e6).fill(i));
  const letGo = () => void (kept = undefined);
  using _ = returnMemoryWhenIdle({ checkMs: 200, letGo, growthPercent: 30 });
  for (let i = 0; i < 300 && mib() > before - 40; i++) await sleep(200);
  console.log(JSON.stringify([before, mib(), kept === undefined]));`;

suite('memory of a process that has nothing to do', () => {
  test('memory used by a busy time goes back to the kernel, and the timer keeps no process alive', () => {
    const args = ['--expose-gc', '--input-type=module-typescript', '--no-warnings', '-e', program];
    const { stdout, stderr, status } = spawnSync(process.execPath, args, {
      encoding: 'utf8',
      timeout: 120_000,
      cwd: import.meta.dirname,
    });
    assert.equal(status, 0, stderr);
    const [before, after, letGo] = JSON.parse(stdout) as [number, number, boolean];
    assert.ok(letGo);
    assert.ok(after < before - 40, `${before} MiB, then ${after}`);
  });
});
