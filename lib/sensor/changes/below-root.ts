/**
 * Opening what a path of bytes leads to below a root, without following its last link, and looking into it.
 */
import { readdirSync } from 'node:fs';

import { openFlags, resolveFlags, tryOpenat2, type Fd } from '../../ebpf/libc.ts';
import type { ByteString } from './change.ts';

/** An O_PATH descriptor that the caller closes, or the errno as a negative number. */
export function tryOpenBelow(root: Fd, path: ByteString, type: 'directory' | 'any'): number {
  return tryOpenat2(root, pathBytes(path), {
    flags: openFlags.PATH | openFlags.NOFOLLOW | (type === 'directory' ? openFlags.DIRECTORY : 0),
    resolve: resolveFlags.IN_ROOT | resolveFlags.NO_MAGICLINKS,
  });
}

/** For openat2: NUL-terminated. */
function pathBytes(path: ByteString): Uint8Array {
  return Buffer.from(`${path}\0`, 'latin1');
}

/** Through the descriptor, so that it is the directory that is watched, wherever it may be by now. */
export function subdirectories(fd: Fd): ByteString[] {
  try {
    return readdirSync(`/proc/self/fd/${fd.number}`, { encoding: 'latin1', withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name);
  } catch {
    return []; // deleted meanwhile, which its parent tells
  }
}
