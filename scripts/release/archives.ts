/** The staged files as a Debian package, and as archives of tar. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  globSync,
  mkdirSync,
  readdirSync,
  mkdtempDisposableSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';

import { gzip, put, settle } from './stage.ts';

export interface Written {
  /** Seconds since 1970. */
  readonly epoch: number;
  /** Level of compression, 0 to 9. */
  readonly level: number;
}

export interface Identity {
  readonly version: string;
  /** As dpkg names it. */
  readonly architecture: string;
}

/**
 * Writes a Debian package of `root`, which gets the control files.
 *
 * @param debian - The directory with the scripts of the package.
 * @throws {Error} if dpkg-deb refuses it.
 */
export function writeDeb(
  root: string,
  deb: string,
  debian: string,
  { version, architecture, epoch, level }: Identity & Written,
): void {
  const control = join(root, 'DEBIAN');
  const sizeKiB = Number(
    execFileSync('du', ['-sk', '--apparent-size', root], { encoding: 'utf8' }).split('\t')[0],
  );
  mkdirSync(control);
  put(
    join(control, 'control'),
    [
      ...['Package: rampart', `Version: ${version}`, `Architecture: ${architecture}`],
      'Maintainer: Rampart maintainers <maintainers@rampart.dev>',
      `Installed-Size: ${sizeKiB}`,
      'Depends: libc6 (>= 2.36), libstdc++6, libbpf1, libnftables1',
      // aide: a FileIntegrity with provider: aide. iptables, ipset: where nftables does not work.
      'Recommends: logrotate',
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
  const scripts = ['postinst', 'prerm', 'postrm'];
  for (const script of scripts) put(join(control, script), readFileSync(join(debian, script)));
  const files = globSync('{etc,usr}/**', { cwd: root, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const sums = files.map(({ parentPath, name }) => {
    const path = join(parentPath, name);
    return `${createHash('md5').update(readFileSync(path)).digest('hex')}  ${path.slice(root.length + 1)}\n`;
  });
  put(join(control, 'md5sums'), sums.toSorted().join(''));
  // Whatever the umask: dpkg-deb refuses others, or keeps them.
  chmodSync(control, 0o755);
  for (const name of readdirSync(control))
    chmodSync(join(control, name), scripts.includes(name) ? 0o755 : 0o644);
  rmSync(deb, { force: true });
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(epoch) };
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zxz', `-z${level}`, '--build', root, deb], {
    env,
    stdio: 'ignore',
  });
}

/** Writes the chart of deploy/chart/ as `helm package` does, without a time. @param top - The checkout. */
export function writeChart(top: string, archive: string, written: Written): void {
  using stage = mkdtempDisposableSync(join(tmpdir(), 'rampart-chart-'));
  const root = join(stage.path, 'rampart');
  cpSync(join(top, 'deploy/chart'), root, { recursive: true });
  writeTarball(root, archive, written);
}

/** Writes the directory `root`, with its name, as `archive`: owned by root, in the order of names. */
export function writeTarball(root: string, archive: string, { epoch, level }: Written): void {
  settle(root, epoch);
  const order = [
    ...['--sort=name', '--owner=0', '--group=0', '--numeric-owner'],
    ...[`--mtime=@${epoch}`, '--format=gnu'],
  ];
  const tar = execFileSync('tar', [...order, '-C', dirname(root), '-cf', '-', basename(root)], {
    maxBuffer: 2 ** 30,
  });
  writeFileSync(archive, gzip(tar, level));
}
