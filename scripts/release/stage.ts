/**
 * The files of the packages, as installed: the build, the npm packages that run with it, guides, the service.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, globSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';

import { guards } from '../../apps/guards.ts';
import { programOf } from '../../apps/program.ts';
import manifest from '../../package.json' with { type: 'json' };
import { manualPage } from '../man.ts';
import { packagedGuides } from './guides.ts';

/** Nothing of a package that runs is in these: types, C sources, and at its top guides, tests and headers. */
const leftOut =
  /(?:\.d\.[cm]?ts|\.map|\.md|\.ts|\.markdown|\.(?:asm|c|cc|def|h|hh|inc|S))$|^(?:docs?|tests?|include|share|examples|benchmarks?|\.github)(?:\/|$)/;
/** Such as `.github`. */
const hidden = /(?:^|\/)\./;
const licence = /(?:licen[cs]e|notice|copying)[^/]*$/i;

/** Where Debian's shells look. */
const completions = {
  bash: 'bash-completion/completions/rampart',
  zsh: 'zsh/vendor-completions/_rampart',
  fish: 'fish/vendor_completions.d/rampart.fish',
} as const;

/** An entry of the lock file. */
interface Locked {
  readonly dev?: boolean;
  readonly version: string;
  readonly license?: string;
}

/**
 * Writes the tree of the Debian package, without its control files, into `root`. `dist/` is built before.
 *
 * @param top - The checkout.
 * @param epoch - Of the build, in seconds since 1970.
 * @throws {Error} if strip(1) is missing, or `npm ci` has not run.
 */
export function stageFiles(top: string, root: string, epoch: number): void {
  const debian = join(top, 'deploy/debian');
  const lib = join(root, 'usr/lib/rampart');
  const doc = join(root, 'usr/share/doc/rampart');
  for (const path of ['bin', 'dist', 'LICENSES', 'LICENSE', 'package.json'])
    cpSync(join(top, path), join(lib, path), { recursive: true });
  const packages = stagePackages(top, lib);
  mkdirSync(join(root, 'usr/bin'), { recursive: true });
  symlinkSync('../lib/rampart/bin/rampart', join(root, 'usr/bin/rampart'));
  for (const [path, content] of packagedGuides(top, debianPlace))
    put(join(doc, path), path.endsWith('.gz') ? gzip(content) : content);
  put(join(doc, 'copyright'), copyrightOf(packages));
  const page = manualPage(programOf(guards), manifest.version, new Date(epoch * 1000));
  put(join(root, 'usr/share/man/man1/rampart.1.gz'), gzip(Buffer.from(page)));
  for (const [shell, path] of Object.entries(completions)) {
    const script = execFileSync(process.execPath, [join(lib, 'dist/apps/rampart.js'), 'completion', shell]);
    put(join(root, 'usr/share', path), script);
  }
  put(join(root, 'usr/lib/systemd/system/rampart.service'), readFileSync(join(debian, 'rampart.service')));
  put(join(root, 'usr/lib/tmpfiles.d/rampart.conf'), readFileSync(join(debian, 'tmpfiles')));
  put(join(root, 'etc/rampart/rampart.conf'), readFileSync(join(debian, 'rampart.conf')));
  mkdirSync(join(root, 'etc/rampart/policies'), { recursive: true });
  put(join(root, 'etc/logrotate.d/rampart'), readFileSync(join(debian, 'logrotate')));
}

/** Writes the tree of the npm package into `root`, from one that {@link stageFiles} made. */
export function stageNpm(top: string, staged: string, root: string): void {
  const lib = join(staged, 'usr/lib/rampart');
  cpSync(lib, root, { recursive: true });
  for (const [path, content] of packagedGuides(top, (source) => source)) put(join(root, path), content);
  const own = readManifest(join(root, 'package.json'));
  const dependencies = Object.keys({ ...own['dependencies'], ...own['optionalDependencies'] });
  // The bundle is complete: npm fetches nothing, compiles nothing, and it contains the Node.js that runs it.
  for (const path of globSync('node_modules/{*,@*/*}/package.json', { cwd: root })) {
    const bundled = readManifest(join(root, path));
    put(join(root, path), JSON.stringify(withoutOthers(bundled, root), undefined, 2));
  }
  const { private: _private, files: _files, ...published } = withoutOthers(own, root);
  const platform = { os: [process.platform], cpu: [process.arch] };
  const bundleDependencies = dependencies.filter((name) => isStaged(root, name));
  put(
    join(root, 'package.json'),
    `${JSON.stringify({ ...published, ...platform, bundleDependencies }, undefined, 2)}\n`,
  );
}

/** Debian has guides without a folder of their own, and the changelog compressed. */
export function debianPlace(source: string): string {
  const others: Readonly<Record<string, string>> = {
    'CHANGELOG.md': 'changelog.gz',
    'docs/README.md': 'guides.md',
  };
  return others[source] ?? source.replace(/^docs\//, '');
}

type Manifest = Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>>;

function readManifest(path: string): Manifest {
  return JSON.parse(readFileSync(path, 'utf8')) as Manifest;
}

/** Without scripts, demands on the Node.js of the machine, and packages for other platforms. */
function withoutOthers(all: Manifest, root: string): Manifest {
  const { scripts: _scripts, devDependencies: _dev, engines: _engines, ...rest } = all;
  const optional = Object.entries(rest['optionalDependencies'] ?? {}).filter(([name]) =>
    isStaged(root, name),
  );
  const { optionalDependencies: _optional, ...others } = rest;
  return optional.length === 0 ? others : { ...others, optionalDependencies: Object.fromEntries(optional) };
}

function isStaged(root: string, name: string): boolean {
  return globSync(`node_modules/${name}/package.json`, { cwd: root }).length > 0;
}

/** The packages that run with the product, without what does not run. @returns those of the lock file, by path. */
function stagePackages(top: string, lib: string): ReadonlyMap<string, Locked> {
  const read = (path: string) =>
    (
      JSON.parse(readFileSync(join(top, path), 'utf8')) as {
        readonly packages: Readonly<Record<string, Locked>>;
      }
    ).packages;
  const installed = read('node_modules/.package-lock.json');
  const runs = Object.entries(read('package-lock.json')).filter(
    ([path, { dev }]) => path !== '' && dev !== true && path in installed,
  );
  for (const [path] of runs) {
    cpSync(join(top, path), join(lib, path), {
      recursive: true,
      filter: (source) => {
        const within = source.slice(top.length + path.length + 1).replace(/^\//, '');
        return !hidden.test(within) && (licence.test(within) || !leftOut.test(within));
      },
    });
  }
  // In the binary of Node.js, 14 % are symbols.
  for (const path of globSync('node_modules/node-linux-*/bin/node', { cwd: lib }))
    execFileSync('strip', ['--strip-all', join(lib, path)]);
  return new Map(runs);
}

function copyrightOf(packages: ReadonlyMap<string, Locked>): string {
  const others = [...packages].map(([path, { version, license = 'see its files' }]) => {
    const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
    return `Files: /usr/lib/rampart/${path}/*\nComment: ${name} ${version}\nLicense: ${license}\n`;
  });
  return [
    'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: rampart\n',
    'Files: *\nCopyright: the Rampart authors\nLicense: Apache-2.0\n The text is in /usr/lib/rampart/LICENSE, and on Debian in /usr/share/common-licenses/Apache-2.0.\n',
    'Files: /usr/lib/rampart/dist/*.bpf.o\nCopyright: the Rampart authors\nLicense: GPL-2.0-only\n The text is in /usr/lib/rampart/LICENSES/GPL-2.0-only.txt.\n',
    'Files: /usr/lib/rampart/dist/ui/page.js\nCopyright: the Rampart authors, the authors of Preact\nLicense: Apache-2.0 and MIT\n The MIT licence of Preact is in /usr/lib/rampart/dist/ui/preact.LICENSE.txt.\n',
    ...others,
  ].join('\n');
}

/** The same modes and times whatever the umask and the clock of the builder. @param epoch - Seconds since 1970. */
export function settle(root: string, epoch: number): void {
  chmodSync(root, 0o755);
  const entries = globSync('**', { cwd: root, withFileTypes: true });
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isDirectory()) chmodSync(path, 0o755);
    else if (entry.isFile()) chmodSync(path, /\/bin\/[^/]+$|install\.sh$/.test(path) ? 0o755 : 0o644);
  }
  execFileSync('find', [root, '-exec', 'touch', '--no-dereference', `--date=@${epoch}`, '{}', '+']);
}

/** Without a time and a name, which gzip(1) would write. @param level - 0 to 9. */
export function gzip(bytes: Buffer, level = 9): Buffer {
  return gzipSync(bytes, { level });
}

export function put(path: string, content: string | Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}
