import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

import { deepTest } from '../../lib/testing/depth.fixture.ts';
import { writeProvenance } from './provenance.ts';

const top = dirname(dirname(import.meta.dirname));

interface Statement {
  readonly subject: readonly { readonly name: string; readonly digest: { readonly sha256: string } }[];
  readonly predicate: {
    readonly buildDefinition: {
      readonly resolvedDependencies: readonly {
        readonly uri: string;
        readonly digest: Readonly<Record<string, string>>;
      }[];
    };
  };
}

function read<T>(path: string): T {
  return JSON.parse(readFileSync(path, 'utf8')) as T;
}

test('the bill of materials has each package that runs, with the hash of the lock file; provenance has each file', () => {
  const checkout = mkdtempSync(join(tmpdir(), 'rampart-provenance-'));
  const { RAMPART_REVISION: before } = process.env;
  try {
    const installed = read<{ readonly packages: Readonly<Record<string, unknown>> }>(
      join(top, 'node_modules/.package-lock.json'),
    ).packages;
    for (const file of ['package.json', 'package-lock.json', '.npmrc', 'LICENSE']) {
      cpSync(join(top, file), join(checkout, file));
    }
    for (const path of Object.keys(installed)) {
      mkdirSync(join(checkout, path), { recursive: true });
      cpSync(join(top, path, 'package.json'), join(checkout, path, 'package.json'));
    }
    cpSync(join(top, 'node_modules/.package-lock.json'), join(checkout, 'node_modules/.package-lock.json'));
    mkdirSync(join(checkout, 'dist/apps'), { recursive: true });
    writeFileSync(join(checkout, 'dist/apps/rampart.js'), 'run();\n');
    process.env['RAMPART_REVISION'] = 'c0ffee';
    writeProvenance(checkout);

    const { packages } = read<{
      readonly packages: Readonly<
        Record<string, { readonly integrity?: string; readonly dev?: boolean; readonly version: string }>
      >;
    }>(join(top, 'package-lock.json'));
    const wanted = Object.entries(packages)
      .filter(([path, { dev }]) => (dev !== true || path === 'node_modules/preact') && path in installed)
      .map(([path, { version, integrity = '' }]): readonly [string, string] => {
        const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
        const hash = Buffer.from(integrity.replace(/^sha512-/, ''), 'base64').toString('hex');
        return [`pkg:npm/${name.replace('@', '%40')}@${version}`, hash];
      });
    assert.ok(wanted.length > 10);
    const sbom = read<{
      readonly metadata: { readonly component: { readonly name: string } };
      readonly components: readonly {
        readonly purl: string;
        readonly hashes: readonly { content: string }[];
      }[];
    }>(join(checkout, 'dist/sbom.cdx.json'));
    assert.deepEqual(
      new Map(sbom.components.map(({ purl, hashes }) => [purl, hashes[0]?.content])),
      new Map(wanted),
    );

    // Whatever the checkout is called.
    assert.equal(sbom.metadata.component.name, 'rampart');

    const { subject, predicate } = read<Statement>(join(checkout, 'dist/provenance.json'));
    for (const { name, digest } of subject) {
      const sha256 = createHash('sha256').update(readFileSync(join(checkout, name)));
      assert.equal(digest.sha256, sha256.digest('hex'), name);
    }
    assert.deepEqual(
      subject.map(({ name }) => name),
      ['LICENSE', 'dist/apps/rampart.js', 'dist/sbom.cdx.json', 'package.json'],
    );
    const { resolvedDependencies } = predicate.buildDefinition;
    assert.deepEqual(resolvedDependencies[0], { uri: 'git+rampart', digest: { gitCommit: 'c0ffee' } });
    assert.deepEqual(
      new Map(resolvedDependencies.slice(2).map(({ uri, digest }) => [uri, digest['sha512']])),
      new Map(wanted),
    );

    const first = ['sbom.cdx.json', 'provenance.json'].map((name) =>
      readFileSync(join(checkout, 'dist', name), 'utf8'),
    );
    writeProvenance(checkout);
    assert.deepEqual(
      ['sbom.cdx.json', 'provenance.json'].map((name) => readFileSync(join(checkout, 'dist', name), 'utf8')),
      first,
    );
  } finally {
    if (before === undefined) delete process.env['RAMPART_REVISION'];
    else process.env['RAMPART_REVISION'] = before;
    rmSync(checkout, { recursive: true });
  }
});

test('images are built from images with fixed digests', () => {
  const lines = readFileSync(join(top, 'deploy/Dockerfile'), 'utf8').split('\n');
  const bases = lines.filter((line) => line.startsWith('FROM '));
  assert.equal(bases.length, 2);
  for (const line of bases) assert.match(line, /^FROM [\w.:-]+@sha256:[0-9a-f]{64}( AS \w+)?$/);
});

deepTest('two builds of one commit are the same, and what npm packs is what provenance lists', () => {
  const checkout = mkdtempSync(join(tmpdir(), 'rampart-build-'));
  const run = (command: string, ...args: string[]): string => {
    const { status, stdout, stderr } = spawnSync(command, args, { cwd: checkout, encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    return stdout;
  };
  try {
    run('git', 'clone', '-q', top, '.');
    cpSync(join(top, 'node_modules'), join(checkout, 'node_modules'), {
      recursive: true,
      verbatimSymlinks: true,
    });
    const build = (): string => {
      run(process.execPath, 'scripts/build.ts');
      return readFileSync(join(checkout, 'dist/provenance.json'), 'utf8');
    };
    const first = build();
    assert.equal(build(), first);
    const [packed] = JSON.parse(run('npm', 'pack', '--dry-run', '--json', '--ignore-scripts')) as [
      { readonly files: readonly { readonly path: string }[] },
    ];
    const listed = new Set((JSON.parse(first) as Statement).subject.map(({ name }) => name));
    // What is read and does not run is in checksums of the package alone.
    const runs = ({ path }: { readonly path: string }): boolean =>
      !/^(?:docs|examples|LICENSES)\/|^[A-Z]+\.md$/.test(path);
    assert.deepEqual(
      packed.files
        .filter(runs)
        .map(({ path }) => path)
        .filter((path) => !listed.has(path)),
      ['dist/provenance.json'],
    );
  } finally {
    rmSync(checkout, { recursive: true });
  }
});
