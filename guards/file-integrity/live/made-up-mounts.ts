/** Directories that the kernel makes up as they are read: /proc, /sys. It tells of no change in them. */
import { readFileSync, realpathSync } from 'node:fs';

import type { ByteString } from '../model/entry.ts';

const types: ReadonlySet<string> = new Set(
  (
    'proc sysfs debugfs tracefs securityfs selinuxfs smackfs cgroup cgroup2 resctrl pstore bpf configfs efivarfs ' +
    'binfmt_misc mqueue devpts fusectl rpc_pipefs nsfs hugetlbfs nfsd autofs'
  ).split(' '),
);
/** What is mounted is read again after so long; a node has thousands of mounts. */
const freshMs = 10_000;

/** Those below a root. Holds memory only. */
export class MadeUpMounts {
  readonly #root: string;
  #paths: ReadonlySet<ByteString> = new Set();
  #readMs = -Infinity;

  constructor(root: string) {
    this.#root = root;
  }

  /** @param path below the root */
  has(path: ByteString): boolean {
    const nowMs = performance.now();
    if (nowMs - this.#readMs > freshMs) {
      this.#paths = read(this.#root);
      this.#readMs = nowMs;
    }
    return this.#paths.has(path);
  }
}

function read(root: string): ReadonlySet<ByteString> {
  const found = new Set<ByteString>();
  let within: ByteString;
  let mounts: string;
  try {
    // The kernel tells paths without links.
    const real = realpathSync(root, 'buffer').toString('latin1');
    within = real === '/' ? '' : real;
    mounts = readFileSync('/proc/self/mountinfo', 'latin1');
  } catch {
    return found;
  }
  // proc_pid_mountinfo(5): the mount point is the fifth field, the type the first behind ' - '.
  for (const line of mounts.split('\n')) {
    const [before = '', after = ''] = line.split(' - ');
    const point = before
      .split(' ')[4]
      ?.replace(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 8)));
    const [type = ''] = after.split(' ');
    if (point?.startsWith(`${within}/`) === true && types.has(type)) found.add(point.slice(within.length));
  }
  return found;
}
