import { execFileSync } from 'node:child_process';

/**
 * Seconds since 1970 that stand for the time of a build: SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/), or the
 * time of the commit.
 *
 * @param top - The checkout.
 * @throws {Error} where neither is known.
 */
export function sourceDate(top: string): number {
  const { SOURCE_DATE_EPOCH: reported = '' } = process.env;
  if (reported !== '') return Number(reported);
  const git = ['-c', `safe.directory=${top}`, 'log', '-1', '--format=%ct'];
  return Number(execFileSync('git', git, { cwd: top, encoding: 'utf8' }));
}
