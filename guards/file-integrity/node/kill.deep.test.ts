// A provider that is killed at any moment leaves the complete old or new baseline, and continues with it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { scaled } from '../../../lib/testing/depth.fixture.ts';
import { readAcceptances } from '../signed-notes/acceptance-log.fixture.ts';
import { killFiles, killJob, killRound } from './kill.fixture.ts';
import { NativeProvider } from './native-provider.ts';

const kills = scaled(100);
const lanes = 3;
/** Most of the time of a process is its start. */
const cache = mkdtempSync(join(tmpdir(), 'rampart-kill-cache-'));
after(() => rmSync(cache, { recursive: true, force: true }));

/** The round of the baseline; undefined without one. */
async function roundOf(directory: string): Promise<number | undefined> {
  const provider = new NativeProvider({ version: '0.0.0' });
  const job = killJob(directory);
  if ((await provider.state(job)) === 'none') return undefined;
  await using baseline = await provider.openBaseline(job);
  const sizes = new Set<number>();
  let count = 0;
  for await (const batch of baseline.entries()) {
    for (const { sizeBytes } of batch) sizes.add(sizeBytes);
    count += batch.length;
  }
  assert.equal(count, killFiles.length);
  assert.equal(sizes.size, 1, `a baseline of several rounds: ${[...sizes].join(', ')}`);
  return [...sizes][0];
}

/** In this one of the things that it does, or soon after. */
async function killOnce(directory: string, hasBaseline: boolean, thing: number): Promise<void> {
  const script = join(import.meta.dirname, 'kill-loop.fixture.ts');
  const child = spawn(process.execPath, [script, directory, ...(hasBaseline ? ['has-baseline'] : [])], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? cache },
  });
  let stderr = '';
  child.stderr.on('data', (data: Buffer) => (stderr += data.toString()));
  const exited = once(child, 'exit');
  let things = thing;
  const started = Promise.withResolvers<void>();
  child.stdout.on('data', (data: Buffer) => {
    things -= data.length;
    if (things <= 0) started.resolve();
  });
  await Promise.race([started.promise, exited]);
  await delay(Math.random() ** 2 * 100);
  child.kill('SIGKILL');
  const [code, signal] = (await exited) as [number | null, string | null];
  assert.equal(signal, 'SIGKILL', `it ended by itself with ${code}: ${stderr}`);
}

test(
  `killed at ${kills} random moments of baselines, checks and acceptances`,
  { timeout: 300_000 },
  async () => {
    const perLane = Math.ceil(kills / lanes);
    const rounds = new Set<number>();
    let acceptances = 0;
    await Promise.all(
      Array.from({ length: lanes }, async (_, lane) => {
        const directory = mkdtempSync(join(tmpdir(), 'rampart-kill-'));
        try {
          mkdirSync(join(directory, 'host/etc'), { recursive: true });
          mkdirSync(join(directory, 'data'));
          let last: number | undefined;
          for (let at = 0; at < perLane; at++) {
            // One begins with the fourth, so that something was accepted, another with the first, when there is no baseline.
            await killOnce(directory, last !== undefined, 1 + ((at + lane + 3) % 4));
            const round = await roundOf(directory);
            if (last !== undefined) assert.ok(round !== undefined && round >= last, `${round} after ${last}`);
            if (round !== undefined) {
              assert.ok(round <= killRound(directory), `${round} after ${killRound(directory)}`);
              rounds.add(round);
            }
            last = round;
          }
          const { faults, records } = await readAcceptances(
            join(directory, 'data'),
            killJob(directory).signingKey,
          );
          assert.deepEqual(faults, []);
          acceptances += records.length;
          const names = readdirSync(join(directory, 'data'));
          assert.ok(names.filter((name) => name.startsWith('baseline.backup-')).length <= 4, names.join());
        } finally {
          rmSync(directory, { recursive: true, force: true });
        }
      }),
    );
    assert.ok(acceptances > 0, 'nothing was accepted');
    assert.ok(rounds.size > kills / 10, `only ${rounds.size} rounds were seen`);
  },
);
