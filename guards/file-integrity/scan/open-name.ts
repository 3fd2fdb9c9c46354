/** Opens a name in a directory without ever waiting. */
import { constants } from 'node:os';

import { errno, fileCalls } from '../../../lib/ebpf/ffi.ts';
import { type FixedBuffer, openFlags } from '../../../lib/ebpf/libc.ts';

const { EPERM } = constants.errno;

/**
 * Opens a name for reading, without updating the file's access time if that is permitted. Returns a descriptor, or the errno
 * as a negative number.
 */
export function openName(directoryFd: number, name: FixedBuffer, flags: number): number {
  const all = flags | openFlags.NONBLOCK | openFlags.CLOEXEC;
  const fd = fileCalls.openat(directoryFd, name.address, all | openFlags.NOATIME, 0);
  if (fd >= 0) return fd;
  const number = errno();
  if (number !== EPERM) return -number;
  // Without CAP_FOWNER, only the owner of a file may use O_NOATIME (open(2)).
  const plain = fileCalls.openat(directoryFd, name.address, all, 0);
  return plain >= 0 ? plain : -errno();
}
