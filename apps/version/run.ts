import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import manifest from '../../package.json' with { type: 'json' };
import { printDocument } from '../../lib/cli/document.ts';
import { libbpfVersion } from '../../lib/ebpf/features/kernel-facts.ts';
import type { VersionOptions } from './command.ts';

/** `rampart version -o json`. */
export interface VersionReport {
  readonly version: string;
  /** The commit that it was built from; `null` if unknown. */
  readonly commit: string | null;
  /** Whether it was built with uncommitted changes; `null` if unknown. */
  readonly changed: boolean | null;
  /** `built`: JavaScript of `npm run build`, as in packages and images; `source`: the TypeScript of a checkout. */
  readonly build: 'built' | 'source';
  readonly node: string;
  /** The version of libbpf; `null` if it is not installed. */
  readonly libbpf: string | null;
  /** Such as `linux/x64`. */
  readonly platform: string;
}

const top = join(import.meta.dirname, '../..');

export function runVersion({ output }: VersionOptions): void {
  const report = versionReport();
  if (output !== 'pretty') {
    printDocument(output, 'rampart.dev/version/v1', report);
    return;
  }
  const { version, commit, changed, build, node, libbpf, platform } = report;
  const from = `${commit ?? 'unknown'}${changed === true ? ', with uncommitted changes' : ''}`;
  process.stdout.write(
    `rampart ${version} (${platform}, ${build === 'source' ? 'run from sources' : 'built'})\n` +
      `commit  ${from}\nNode.js ${node}\nlibbpf  ${libbpf ?? 'not installed'}\n`,
  );
}

function versionReport(): VersionReport {
  // Written by scripts/release/provenance.ts next to the build's output.
  const provenance = join(top, 'provenance.json');
  const isBuilt = existsSync(provenance);
  return {
    version: manifest.version,
    ...(isBuilt ? builtFrom(readFileSync(provenance, 'utf8')) : checkedOut()),
    build: isBuilt ? 'built' : 'source',
    node: process.versions.node,
    libbpf: libbpfVersion()?.replace(/^v/, '') ?? null,
    platform: `${process.platform}/${process.arch}`,
  };
}

type Source = Pick<VersionReport, 'changed' | 'commit'>;

function builtFrom(text: string): Source {
  const { buildDefinition } = (
    JSON.parse(text) as {
      readonly predicate: {
        readonly buildDefinition: {
          readonly externalParameters: { readonly uncommittedChanges?: boolean };
          readonly resolvedDependencies: readonly { readonly digest: { readonly gitCommit?: string } }[];
        };
      };
    }
  ).predicate;
  const commit = buildDefinition.resolvedDependencies.find(({ digest }) => digest.gitCommit)?.digest
    .gitCommit;
  return { commit: commit ?? null, changed: buildDefinition.externalParameters.uncommittedChanges ?? null };
}

function checkedOut(): Source {
  if (!existsSync(join(top, '.git'))) return { commit: null, changed: null };
  // Git refuses to read another user's clone, for example when root runs a checkout.
  const git = (...args: string[]): string | undefined => {
    const run = spawnSync('git', ['-c', `safe.directory=${top}`, ...args], { cwd: top, encoding: 'utf8' });
    return run.status === 0 ? run.stdout.trim() : undefined;
  };
  const changes = git('status', '--porcelain');
  return { commit: git('rev-parse', 'HEAD') ?? null, changed: changes === undefined ? null : changes !== '' };
}
