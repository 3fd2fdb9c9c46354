/**
 * `npm run package`: the product as packages, below `packages/`:
 *
 *   rampart_VERSION_amd64.deb             for Debian 12 and later
 *   rampart-VERSION-linux-x64.tar.gz      the same files for other distributions, with install.sh
 *   rampart-VERSION-npm-linux-x64.tgz     for `npm install --global`, with all that it depends on
 *   SHA256SUMS
 *
 * Everything comes from this checkout and its node_modules; nothing is downloaded. The same commit gives the same bytes: owners, modes, order
 * and times do not depend on the machine.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempDisposableSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';

import manifest from '../../package.json' with { type: 'json' };
import { writeDeb, writeTarball } from './archives.ts';
import { sourceDate } from './source-date.ts';
import { settle, stageFiles, stageNpm } from './stage.ts';

const top = dirname(dirname(import.meta.dirname));
const debian = join(top, 'deploy/debian');
/** As Node.js and as dpkg name it. */
const architectures = { x64: 'amd64', arm64: 'arm64' } as const;

export interface Packages {
  readonly deb: string;
  readonly tarball: string;
  readonly npm: string;
}

export interface PackageOptions {
  /** Level of compression, 0 to 9; less is quicker. Default: 6. */
  readonly level?: number;
}

/**
 * Writes the packages into `directory`, which is made.
 *
 * @returns their paths.
 * @throws {Error} if a tool fails.
 */
export function writePackages(directory: string, options: PackageOptions = {}): Packages {
  const { level = 6 } = options;
  const { version } = manifest;
  const arch = process.arch as keyof typeof architectures;
  const written = { epoch: sourceDate(top), level };
  using stage = mkdtempDisposableSync(join(tmpdir(), 'rampart-package-'));
  const root = join(stage.path, 'root');
  execFileSync(process.execPath, [join(top, 'scripts/build.ts')], { cwd: top, stdio: 'ignore' });
  stageFiles(top, root, written.epoch);
  settle(root, written.epoch);
  mkdirSync(directory, { recursive: true });
  const made = {
    deb: join(directory, `rampart_${version}_${architectures[arch]}.deb`),
    tarball: join(directory, `rampart-${version}-linux-${arch}.tar.gz`),
    npm: join(directory, `rampart-${version}-npm-linux-${arch}.tgz`),
  };
  const unpacked = join(stage.path, basename(made.tarball, '.tar.gz'));
  cpSync(root, unpacked, { recursive: true, verbatimSymlinks: true });
  cpSync(join(debian, 'install.sh'), join(unpacked, 'install.sh'));
  writeTarball(unpacked, made.tarball, written);
  // As `npm pack` names it.
  const npmRoot = join(stage.path, 'package');
  stageNpm(top, root, npmRoot);
  writeTarball(npmRoot, made.npm, written);
  // Last, as it adds its control files.
  writeDeb(root, made.deb, debian, { ...written, version, architecture: architectures[arch] });
  return made;
}

/** Writes SHA256SUMS of `paths`, which are files of `directory`, as sha256sum(1) checks it. @returns its path. */
export function writeSums(directory: string, paths: readonly string[]): string {
  const sums = paths.map((path) => {
    const sum = createHash('sha256').update(readFileSync(path)).digest('hex');
    return `${sum}  ${basename(path)}\n`;
  });
  const path = join(directory, 'SHA256SUMS');
  writeFileSync(path, sums.join(''));
  return path;
}

if (import.meta.main) {
  const directory = join(top, 'packages');
  if (!existsSync(join(top, `node_modules/node-linux-${process.arch}`)))
    throw new Error('node_modules has no Node.js to pack; run scripts/setup');
  const made = Object.values(writePackages(directory)) as string[];
  for (const path of [...made, writeSums(directory, made)])
    process.stdout.write(`${path.slice(top.length + 1)}\n`);
}
