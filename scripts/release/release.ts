/**
 * `npm run release`: all files of a release, below `packages/`, from a signed tag: docs/release.md.
 *
 *   npm run release -- --cut       dates the changelog of the version in package.json, for the commit that is tagged
 *   npm run release                checks whether everything agrees, then writes the files and SHA256SUMS
 *   npm run release -- --dry-run   the same without a tag and with changes, to see what a release would have
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';

import manifest from '../../package.json' with { type: 'json' };
import { writeImage } from './image.ts';
import { writePackages, writeSums } from './package.ts';
import { writeChart } from './archives.ts';
import { sourceDate } from './source-date.ts';

const top = dirname(dirname(import.meta.dirname));

/** Files of the build that are published beside the packages. */
const statements = ['sbom.cdx.json', 'provenance.json'];

/** Files with a name that only the owner of the repository can fill in, and the word in its place. */
const placeholders = { 'SECURITY.md': 'REPORT-ADDRESS', '.github/CODEOWNERS': 'REVIEWERS' };

/** The facts about a checkout that decide whether it can be released. */
export interface Checkout {
  readonly version: string;
  readonly changelog: string;
  /** Output of `git status --porcelain`; empty: no changes. */
  readonly changes: string;
  /** Output of `git verify-tag` on failure; undefined: a known key has signed the tag. */
  readonly tagProblem: string | undefined;
  /** Text by path, for the files that may have a placeholder; a file that is missing has none. */
  readonly ownersFiles: Readonly<Record<string, string>>;
}

/** Why it cannot be released, a line each. */
export function objections({ version, changelog, changes, tagProblem, ownersFiles }: Checkout): string[] {
  const newest = /^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?$/m.exec(changelog);
  return [
    ...(newest?.[1] === version && newest[2] !== undefined
      ? []
      : [`CHANGELOG.md does not begin with "## [${version}] - DATE"; run: npm run release -- --cut`]),
    ...(changes === '' ? [] : [`uncommitted changes:\n${changes}`]),
    ...(tagProblem === undefined ? [] : [`this commit has no signed tag v${version}: ${tagProblem}`]),
    ...Object.entries(placeholders)
      .filter(([path, word]) => ownersFiles[path]?.includes(word))
      .map(([path, word]) => `${path} still has ${word}; replace it by a name or an address of yours`),
  ];
}

/** The changelog with a date at its newest version. @param date - YYYY-MM-DD. @throws {Error} where nothing is unreleased. */
export function dated(changelog: string, version: string, date: string): string {
  const unreleased = /^## \[Unreleased\].*$/m;
  if (!unreleased.test(changelog)) throw new Error('CHANGELOG.md has no heading "## [Unreleased]"');
  return changelog.replace(unreleased, `## [${version}] - ${date}`);
}

function look(version: string): Checkout {
  const git = (...args: string[]) =>
    spawnSync('git', ['-c', `safe.directory=${top}`, ...args], { cwd: top, encoding: 'utf8' });
  const tag = `v${version}`;
  const tagged = git('rev-parse', '--verify', '--quiet', `${tag}^{commit}`).stdout.trim();
  const verified = git('verify-tag', tag);
  let tagProblem: string | undefined;
  if (tagged === '') tagProblem = 'there is no such tag';
  else if (tagged !== git('rev-parse', 'HEAD').stdout.trim()) tagProblem = 'it is at another commit';
  else if (verified.status !== 0) tagProblem = verified.stderr.trim();
  return {
    ...{ version, tagProblem },
    changelog: readFileSync(join(top, 'CHANGELOG.md'), 'utf8'),
    changes: git('status', '--porcelain').stdout.trimEnd(),
    ownersFiles: Object.fromEntries(
      Object.keys(placeholders)
        .filter((path) => existsSync(join(top, path)))
        .map((path) => [path, readFileSync(join(top, path), 'utf8')]),
    ),
  };
}

function release(isDry: boolean): void {
  const { version } = manifest;
  const problems = objections(look(version));
  for (const problem of problems) process.stderr.write(`release: ${problem}\n`);
  if (problems.length > 0 && !isDry) {
    process.exitCode = 1;
    return;
  }
  const directory = join(top, 'packages');
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory);
  const { deb, tarball, npm } = writePackages(directory, { level: 9 });
  const chart = join(directory, `rampart-${version}.tgz`);
  writeChart(top, chart, { epoch: sourceDate(top), level: 9 });
  const image = writeImage(directory);
  const paths = [deb, tarball, npm, chart, image.archive, image.sbom];
  for (const name of statements) {
    const path = join(directory, `rampart-${version}.${name}`);
    cpSync(join(top, 'dist', name), path);
    paths.push(path);
  }
  for (const path of [...paths, writeSums(directory, paths)])
    process.stdout.write(`${path.slice(top.length + 1)}\n`);
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { cut: { type: 'boolean' }, 'dry-run': { type: 'boolean' } } });
  if (values.cut) {
    const path = join(top, 'CHANGELOG.md');
    const date = new Date().toISOString().slice(0, 10);
    writeFileSync(path, dated(readFileSync(path, 'utf8'), manifest.version, date));
    process.stdout.write(
      `CHANGELOG.md: ${manifest.version} is dated ${date}; commit it, then tag the commit\n`,
    );
  } else release(values['dry-run'] === true);
}
