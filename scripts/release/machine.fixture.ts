/**
 * A machine for tests of packages: a bare Debian 12 with systemd, in namespaces of its own, by debootstrap and systemd-nspawn. It has no
 * network but its own, and ends with this process.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';

import { until } from '../../lib/testing/until.fixture.ts';
import { createHome, removeHome } from '../../test/lab/leftovers.ts';
import { cgroupDirectories } from '../../test/lab/obstacle.ts';

const run = promisify(execFile);
const cache = process.env['RAMPART_DEBIAN_CACHE'] ?? join(import.meta.dirname, '../../.cache/debian');
/** The sources of the test's machine: with all dependencies, without the archive. */
const downloaded = [
  ...[
    'libbpf1',
    'libnftables1',
    'libstdc++6',
    'logrotate',
    'containerd',
    'runc',
    'containernetworking-plugins',
  ],
  ...['kubernetes-client', 'iproute2', 'busybox-static', 'nftables'],
];
/** The machine's own: without them it would not boot. */
const booted = ['systemd', 'systemd-sysv', 'dbus'];

/** There is no one to ask. */
const aptOptions = 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n';

/** $1 is the directory of the machine, the rest are its cgroups. */
const bootScript = `
set -e
root=$1
shift
for cgroup; do echo $$ > "$cgroup/cgroup.procs"; done
mount -t proc proc /proc
mount -t tmpfs -o mode=755 run /run
export SYSTEMD_NSPAWN_API_VFS_WRITABLE=1
exec systemd-nspawn --quiet --directory "$root" --boot --register=no --keep-unit --private-network --machine=bare \\
  --capability=all --system-call-filter='@system-service @mount @privileged @debug bpf perf_event_open' --console=pipe \\
  systemd.unified_cgroup_hierarchy=no
`;

/** Kernel file systems of a machine that nspawn does not mount. */
const mountScript = `
set -e
for at in /sys/fs/cgroup /sys/fs/cgroup/*; do mount -o remount,rw,bind "$at" 2> /dev/null || true; done
mount -o remount,rw /sys
mkdir -p /sys/fs/bpf
mount -t bpf bpf /sys/fs/bpf
mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
`;

/** Why there can be no such machine here; undefined: it can. */
export function machineObstacle(): string | undefined {
  if (process.getuid?.() !== 0) return 'needs root, for namespaces';
  const path = (process.env['PATH'] ?? '').split(':').concat('/usr/bin', '/usr/sbin');
  const missing = Object.entries({ debootstrap: 'debootstrap', 'systemd-nspawn': 'systemd-container' })
    .filter(([program]) => !path.some((directory) => existsSync(join(directory, program))))
    .map(([, name]) => name);
  return missing.length === 0 ? undefined : `missing packages: apt-get install ${missing.join(' ')}`;
}

/** The tar of a bare Debian 12, made once: it takes some minutes and the Debian archive. */
async function bareDebian(): Promise<string> {
  const tar = join(cache, 'bare-bookworm.tar');
  if (existsSync(tar)) return tar;
  mkdirSync(cache, { recursive: true });
  const home = await createHome();
  try {
    const root = join(home.directory, 'root');
    await run('debootstrap', ['--variant=minbase', `--include=${booted.join()}`, 'bookworm', root]);
    const apt = ['-y', '--no-install-recommends', '--download-only', 'install', ...downloaded];
    await run('chroot', [root, 'apt-get', ...apt], { maxBuffer: 2 ** 26 });
    const made = `${tar}.${process.pid}`;
    await run('tar', ['-C', root, '--numeric-owner', '-cf', made, '.']);
    renameSync(made, tar);
    return tar;
  } finally {
    await removeHome(home.directory);
  }
}

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** One that has booted. The caller disposes it. */
export class Machine implements AsyncDisposable {
  /** Its files, from outside, without its mounts. */
  readonly root: string;
  readonly #home: string;
  readonly #child: ChildProcess;
  /** Pid of its first process, from outside. */
  readonly #pid: number;

  private constructor(home: string, child: ChildProcess, pid: number) {
    this.#home = home;
    this.root = join(home, 'root');
    this.#child = child;
    this.#pid = pid;
  }

  static async boot(): Promise<Machine> {
    const tar = await bareDebian();
    const { directory, cgroup } = await createHome();
    try {
      const root = join(directory, 'root');
      mkdirSync(root);
      await run('tar', ['-C', root, '--numeric-owner', '-xpf', tar]);
      writeFileSync(join(root, 'etc/apt/apt.conf.d/90test'), aptOptions);
      // The hierarchy by which systemd distinguishes its services.
      const named = join(cgroupDirectories().find(isNamed)?.directory ?? cgroup, basename(directory));
      mkdirSync(named, { recursive: true });
      const unshare =
        '--pdeathsig KILL unshare --mount --pid --fork --kill-child --propagation private'.split(' ');
      const child = spawn('setpriv', [...unshare, 'sh', '-c', bootScript, 'sh', root, cgroup, named], {
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      let said = '';
      for (const stream of [child.stdout, child.stderr])
        stream.setEncoding('utf8').on('data', (text: string) => (said += text));
      const pid = await until('the machine boots', () => {
        if (child.exitCode !== null) throw new Error(said);
        const [nspawn] = childrenOf(child.pid ?? 0);
        return childrenOf(nspawn ?? 0).find((one) => commandOf(one) === 'systemd');
      });
      const machine = new Machine(directory, child, pid);
      await until('it is up', async () => {
        const { stdout } = await machine.try('systemctl is-system-running');
        return /^(?:running|degraded)$/m.test(stdout);
      });
      await machine.run(mountScript);
      return machine;
    } catch (error) {
      await removeHome(directory);
      throw error;
    }
  }

  /** Runs a script of the shell as its root would on a terminal. @returns its stdout. @throws {Error} if it fails, with what it said. */
  async run(script: string): Promise<string> {
    const { code, stdout, stderr } = await this.try(script);
    if (code !== 0) throw new Error(`${script}: ${code}\n${stdout}\n${stderr}`);
    return stdout;
  }

  /** As {@link run}, whatever comes of it. */
  async try(script: string): Promise<Ran> {
    try {
      return { code: 0, ...(await run('nsenter', this.#enter(script), { maxBuffer: 2 ** 26 })) };
    } catch (error) {
      const { code, stdout, stderr } = error as { code?: unknown } & Ran;
      if (typeof code !== 'number') throw error;
      return { code, stdout, stderr };
    }
  }

  /** Its path from outside, also of what it has mounted. */
  at(path: string): string {
    return join(`/proc/${this.#pid}/root`, path);
  }

  #enter(script: string): string[] {
    const path = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
    const environment = ['env', '-i', path, 'HOME=/root', 'LC_ALL=C.UTF-8', 'DEBIAN_FRONTEND=noninteractive'];
    const namespaces = '--mount --pid --net --uts --ipc --root --wd'.split(' ');
    return [`--target=${this.#pid}`, ...namespaces, '--', ...environment, 'sh', '-c', script];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    if (this.#child.exitCode === null && this.#child.signalCode === null) await ended;
    await removeHome(this.#home);
  }
}

function isNamed({ directory }: { readonly directory: string }): boolean {
  return basename(directory) === 'systemd';
}

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
}
