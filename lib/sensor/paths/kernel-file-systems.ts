/**
 * File systems whose files the kernel generates as they are read: endless, never the same, and without
 * events.
 */
import { statfsSync } from 'node:fs';

import type { Fd } from '../../ebpf/libc.ts';

/** include/uapi/linux/magic.h */
const magics: ReadonlySet<number> = new Set([
  0x9fa0, // proc
  0x62656572, // sysfs
  0x27e0eb, // cgroup
  0x63677270, // cgroup2
  0x64626720, // debugfs
  0x74726163, // tracefs
  0x73636673, // securityfs
  0xcafe4a11, // bpf
  0x62656570, // configfs
  0xde5e81e4, // efivarfs
  0x6165676c, // pstore
  0x1cd1, // devpts
  0x19800202, // mqueue
  0x42494e4d, // binfmt_misc
  0x65735543, // fusectl
  0x0187, // autofs, where a look may mount something
]);

/** Whether a descriptor, which may be O_PATH, is a file in a file system of the kernel. */
export function isOfKernel(fd: Fd): boolean {
  try {
    return magics.has(statfsSync(`/proc/self/fd/${fd.number}`).type);
  } catch {
    return false; // a server of another machine that does not answer
  }
}
