/** Baselines, checks and acceptances one after the other, until it is killed; says what it begins. */
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { killJob, killRound, killFiles } from './kill.fixture.ts';
import { NativeProvider } from './native-provider.ts';

const directory = process.argv[2] ?? '';
const provider = new NativeProvider({ version: '0.0.0', workers: 1 });
const job = killJob(directory);
const { signal } = new AbortController();
const paths = killFiles.map((name) => `/hostroot/etc/${name}`);

for (let round = killRound(directory) + 1; ; round++) {
  for (const name of killFiles) writeFileSync(join(directory, 'host/etc', name), Buffer.alloc(round));
  // Killed in the middle of it, the one before is there.
  writeFileSync(join(directory, 'round.next'), String(round));
  renameSync(join(directory, 'round.next'), join(directory, 'round'));
  const request = round.toString(16);
  process.stdout.write('.');
  if (round % 3 === 0) await provider.init(job, { signal, request });
  else if (round % 3 === 1) await provider.check(job, { signal }).catch(ignoreMissing);
  else {
    await provider.accept(job, paths, { author: 'a', reason: 'b', request }, { signal }).catch(ignoreMissing);
  }
}

/** Before the first baseline was made. */
function ignoreMissing(error: unknown): void {
  if ((error as { fault?: string }).fault !== 'missing' || process.argv[3] === 'has-baseline') throw error;
}
