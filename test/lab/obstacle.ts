/** The lab's requirements for a machine. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { busyboxPath } from './image.ts';

/** Debian's directory of the network plugins. */
export const cniDirectory = '/usr/lib/cni';

/** By Debian package: what has to be there. */
const wanted: Readonly<Record<string, readonly string[]>> = {
  containerd: ['containerd', 'ctr', 'containerd-shim-runc-v2'],
  runc: ['runc'],
  'containernetworking-plugins': ['bridge', 'host-local', 'loopback'].map((name) => join(cniDirectory, name)),
  iproute2: ['ip'],
  'busybox-static': [busyboxPath],
  'util-linux': ['unshare', 'nsenter', 'setpriv'],
  mount: ['mount'],
};

/** Why the lab cannot run on this machine; undefined when all it needs is there. */
export function labObstacle(): string | undefined {
  if (process.platform !== 'linux') return 'containers need Linux';
  if (process.getuid?.() !== 0) return 'needs root, for containerd';
  if (cgroup2Directory() === undefined) return 'no cgroup2 file system is mounted';
  const path = (process.env['PATH'] ?? '').split(':').concat('/usr/bin', '/usr/sbin', '/sbin', '/bin');
  const isThere = (program: string): boolean =>
    program.startsWith('/')
      ? existsSync(program)
      : path.some((directory) => existsSync(join(directory, program)));
  const missing = Object.keys(wanted).filter((name) => wanted[name]?.every(isThere) === false);
  return missing.length === 0 ? undefined : `missing packages: apt-get install ${missing.join(' ')}`;
}

/** Where cgroup2 is mounted: the only hierarchy, or beside those of version 1. */
export function cgroup2Directory(): string | undefined {
  return cgroupDirectories().find(({ type }) => type === 'cgroup2')?.directory;
}

/** Every mounted cgroup hierarchy. */
export function cgroupDirectories(): { readonly directory: string; readonly type: string }[] {
  // proc_pid_mountinfo(5): the mount point is the fifth field, the type the first after " - ".
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => ({
      directory: line.split(' ')[4] ?? '',
      type: line.split(' - ')[1]?.split(' ')[0] ?? '',
    }))
    .filter(({ type }) => type === 'cgroup' || type === 'cgroup2');
}
