/** The real AIDE, for tests: trees, databases and reports. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Batches } from './model/batches.ts';
import type { Entry } from './model/entry.ts';

/** Runs AIDE with a configuration; database_in, _out and _new are the files `in`, `out` and `new` of the directory. */
export function runAide(
  directory: string,
  command: string,
  config: string,
): { code: number | null; stdout: Buffer } {
  const file = join(directory, 'aide.conf');
  writeFileSync(
    file,
    `database_in=file:${directory}/in\ndatabase_out=file:${directory}/out\ndatabase_new=file:${directory}/new\n` +
      `database_attrs=E\n${config}\n`,
  );
  const { status, stdout, stderr } = spawnSync('aide', ['-c', file, command], {
    env: { ...process.env, TZ: 'UTC' },
  });
  if (status === null || status > 7) throw new Error(`aide ${command}: ${status}: ${stderr.toString()}`);
  return { code: status, stdout };
}

export async function collect<T>(batches: Batches<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const batch of batches) all.push(...batch);
  return all;
}

/** In batches of odd sizes, as they come from a scan. */
export function* inBatches(entries: readonly Entry[], size = 7): Generator<readonly Entry[]> {
  for (let at = 0; at < entries.length; at += size) yield entries.slice(at, at + size);
}
