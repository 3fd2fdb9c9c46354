/**
 * Restricts which processes a container's uprobe sees. Containers of one image share its files, and a uprobe is set in the file: without a
 * gate, one tenant would see processes of another.
 */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

import type { Gate } from './compose/compose.ts';
import type { Fd } from '../../../lib/ebpf/libc.ts';
import type { ContainerPlace } from './desired.ts';
import { ProgramFailure } from './failure.ts';

/**
 * Identifies the container by its PID namespace, if it has its own; otherwise by its cgroup.
 *
 * @param directory - The directory of the container's process in procfs.
 * @throws {ProgramFailure} `target`: the container shares both with others.
 */
export function gateOf(directory: Fd, container: ContainerPlace): Gate {
  const namespace = statSync(`/proc/self/fd/${directory.number}/ns/pid`, { bigint: true });
  const own = statSync('/proc/self/ns/pid', { bigint: true });
  if (namespace.ino !== own.ino)
    return { by: 'pid-namespace', device: kernelDevice(namespace.dev), inode: namespace.ino };
  const cgroup = cgroupOf(container);
  if (cgroup !== undefined) return cgroup;
  throw new ProgramFailure(
    'target',
    `The container ${container.containerId} shares the node's PID namespace (hostPID) and has no cgroup v2 of its own, so a uprobe would also see other containers that use the same file. Run the pod without hostPID, or the node with cgroup v2.`,
  );
}

/** The kernel compares its internal device number: major << 20 | minor (include/linux/kdev_t.h); stat(2) shows a different one. */
function kernelDevice(device: bigint): bigint {
  const major = ((device >> 8n) & 0xfffn) | ((device >> 32n) & ~0xfffn);
  const minor = (device & 0xffn) | ((device >> 12n) & 0xffffff00n);
  return (major << 20n) | minor;
}

function cgroupOf({ cgroupPath, containerId }: ContainerPlace): Gate | undefined {
  const id = containerId.slice(containerId.lastIndexOf('/') + 1);
  // Only a cgroup that is named after the container is certain not to be shared with others.
  if (cgroupPath === undefined || id === '' || !cgroupPath.includes(id)) return undefined;
  const [, mount] =
    /^\S+ \S+ \S+ \S+ (\S+) .* - cgroup2 /m.exec(readFileSync('/proc/self/mountinfo', 'latin1')) ?? [];
  if (mount === undefined) return undefined;
  const found = statSync(join(mount, cgroupPath), { bigint: true, throwIfNoEntry: false });
  if (found === undefined) return undefined;
  const level = cgroupPath.split('/').filter((name) => name !== '').length;
  return { by: 'cgroup', level, id: found.ino };
}
