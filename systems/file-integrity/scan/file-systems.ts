/**
 * File systems whose files are no files: they are made when they are read, some block, some never end, and reading some
 * takes away what they hold (/proc/kmsg, trace_pipe). Their entries are seen, their contents are not read.
 *
 * @module
 */
import { fileCalls } from '../../../shared/ebpf/ffi.ts';
import { FixedBuffer } from '../../../shared/ebpf/libc.ts';

/** include/uapi/linux/magic.h and the file systems themselves. */
const madeUp: ReadonlySet<number> = new Set([
  0x9fa0, // proc
  0x62656572, // sysfs
  0x64626720, // debugfs
  0x74726163, // tracefs
  0x73636673, // securityfs
  0xf97cff8c, // selinuxfs
  0x43415d53, // smackfs
  0x27e0eb, // cgroup
  0x63677270, // cgroup2
  0x7655821, // resctrl
  0x6165676c, // pstorefs
  0xcafe4a11, // bpf
  0x62656570, // configfs
  0xde5e81e4, // efivarfs
  0x42494e4d, // binfmt_misc
  0x19800202, // mqueue
  0x1cd1, // devpts
  0x65735543, // fusectl
  0x67596969, // rpc_pipefs
  0x6e736673, // nsfs
  0x958458f6, // hugetlbfs
  0x6e667364, // nfsd
]);

const statfs = new FixedBuffer(128);

/** Whether contents are not to be read here. */
export function isMadeUp(fd: number): boolean {
  // Where it does not say, it is not one of the kernel's own.
  if (fileCalls.fstatfs(fd, statfs.address) !== 0) return false;
  return madeUp.has(statfs.bytes.readUInt32LE(0));
}
