/** Prometheus' own judgement: https://prometheus.io/docs/prometheus/latest/command-line/promtool/ */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

import { debianPackage } from '../../scripts/debian-packages.ts';

/** Runs promtool. @returns what it has to say, and its exit code */
export async function promtool(
  args: readonly string[],
  input = '',
): Promise<{ readonly code: number | null; readonly text: string }> {
  const { root } = await debianPackage('promtool-2.42', { signal: AbortSignal.timeout(120_000) });
  const ended = spawnSync(join(root, 'usr/bin/promtool'), args, { input, encoding: 'utf8' });
  if (ended.error !== undefined) throw ended.error;
  return { code: ended.status, text: ended.stdout + ended.stderr };
}

/** The objections of `promtool check metrics` to the text of a scrape, a line each. */
export async function complaints(scraped: string): Promise<string[]> {
  const { text } = await promtool(['check', 'metrics'], scraped);
  return text.split('\n').filter((line) => line !== '');
}
