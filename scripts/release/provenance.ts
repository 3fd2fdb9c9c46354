/**
 * Writes what is known of the contents of `dist/` into it: `sbom.cdx.json`, the packages that run with the product (CycloneDX 1.5, by npm),
 * and `provenance.json`, what it was built from (SLSA provenance 1.0 in an in-toto statement, unsigned). The same sources give the same
 * bytes: neither has a time or a random number.
 *
 * https://cyclonedx.org/docs/1.5/json/, https://slsa.dev/spec/v1.0/provenance
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

interface Component {
  readonly 'bom-ref': string;
  readonly name: string;
  readonly properties?: readonly { readonly name: string; readonly value: string }[];
  readonly purl: string;
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
}

interface Dependency {
  readonly uri: string;
  readonly digest: Readonly<Record<string, string>>;
}

function sha256(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}

function run(top: string, command: string, ...args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd: top, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? stderr}`);
  return stdout;
}

/** The page is built with it in it. */
const inPage = 'preact';

/** The packages of package-lock.json that are installed with the product on this platform, and what is in its page. */
function writeSbom(top: string): readonly Component[] {
  // `--omit dev` would also leave out what packages for development and the product both may use.
  const { serialNumber: _random, ...sbom } = JSON.parse(
    run(top, 'npm', 'sbom', '--sbom-format', 'cyclonedx'),
  ) as {
    readonly serialNumber: string;
    readonly metadata: { readonly timestamp: string; readonly component: { readonly name: string } };
    readonly components: readonly Component[];
    readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
  };
  const { timestamp: _now, component: own, ...others } = sbom.metadata;
  const { name: product } = JSON.parse(readFileSync(join(top, 'package.json'), 'utf8')) as {
    readonly name: string;
  };
  // npm names it after the directory of the checkout.
  const metadata = { ...others, component: { ...own, name: product } };
  const isForDevelopment = ({ name, properties = [] }: Component): boolean =>
    name !== inPage &&
    properties.some((one) => one.name === 'cdx:npm:package:development' && one.value === 'true');
  const components = sbom.components.filter((component) => !isForDevelopment(component));
  const left = new Set(sbom.components.filter(isForDevelopment).map((component) => component['bom-ref']));
  const dependencies = sbom.dependencies
    .filter(({ ref }) => !left.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((one) => !left.has(one)) }));
  const written = { ...sbom, metadata, components, dependencies };
  writeFileSync(join(top, 'dist/sbom.cdx.json'), `${JSON.stringify(written, undefined, 2)}\n`);
  return components;
}

/** The commit; a build without `.git` gets it as an argument: `docker build --build-arg REVISION`. */
function revision(top: string): { readonly commit: string; readonly changed: boolean } | undefined {
  const { RAMPART_REVISION: reported = '' } = process.env;
  if (reported !== '') return { commit: reported, changed: false };
  if (!existsSync(join(top, '.git'))) return undefined;
  // Without quotes in the list of changes, and as root in a clone of another user.
  const git = (...args: string[]): string => run(top, 'git', '-c', `safe.directory=${top}`, ...args).trim();
  return { commit: git('rev-parse', 'HEAD'), changed: git('status', '--porcelain') !== '' };
}

/** @throws {Error} if npm or git cannot say what they are asked. `top` is a checkout whose `dist/` is built. */
export function writeProvenance(top: string): void {
  const packages = writeSbom(top).map(({ purl, hashes = [] }): Dependency => ({
    uri: purl,
    digest: Object.fromEntries(
      hashes.map(({ alg, content }) => [alg.toLowerCase().replace('-', ''), content]),
    ),
  }));
  const source = revision(top);
  const files = globSync(['bin/*', 'dist/**/*', 'LICENSES/*', 'LICENSE', 'CHANGELOG.md', 'package.json'], {
    cwd: top,
    withFileTypes: true,
  })
    .filter((entry) => entry.isFile() && entry.name !== 'provenance.json')
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted();
  const statement = {
    _type: 'https://in-toto.io/Statement/v1',
    subject: files.map((path) => ({ name: path.slice(top.length + 1), digest: { sha256: sha256(path) } })),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: 'https://rampart.dev/build/v1',
        externalParameters: {
          command: 'npm run build',
          ...(source && { uncommittedChanges: source.changed }),
        },
        resolvedDependencies: [
          ...(source ? [{ uri: 'git+rampart', digest: { gitCommit: source.commit } }] : []),
          { uri: 'package-lock.json', digest: { sha256: sha256(join(top, 'package-lock.json')) } },
          ...packages,
        ],
      },
      runDetails: {
        builder: { id: 'https://rampart.dev/build/unsigned', version: { node: process.versions.node } },
      },
    },
  };
  writeFileSync(join(top, 'dist/provenance.json'), `${JSON.stringify(statement)}\n`);
}
