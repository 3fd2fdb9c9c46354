/** The lab's requirements for a machine. */
import { accessSync, constants, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { busyboxPath } from './image.ts';

/** Debian's directory of the network plugins. */
export const cniDirectory = '/usr/lib/cni';

/** By Debian package: the programs that have to be there. */
export type Packages = Readonly<Record<string, readonly string[]>>;

const packages: Packages = {
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
  return packagesObstacle(packages);
}

/** Which packages this machine misses; undefined when it has all of their programs. */
export function packagesObstacle(wanted: Packages): string | undefined {
  const missing = Object.keys(wanted).filter((name) =>
    wanted[name]?.some((program) => !findProgram(program)),
  );
  return missing.length === 0 ? undefined : `missing packages: apt-get install ${missing.join(' ')}`;
}

/** Where a program is: in PATH, or where those of root are; undefined when it is nowhere. */
export function findProgram(name: string): string | undefined {
  const path = `${process.env['PATH'] ?? ''}:/usr/bin:/usr/sbin:/sbin:/bin`.split(':');
  const places = name.startsWith('/') ? [name] : path.map((directory) => join(directory, name));
  return places.find((place) => {
    try {
      accessSync(place, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
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
