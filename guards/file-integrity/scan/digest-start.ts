/** The checksums of the start of a file, for one that may have grown. */
import { libc } from '../../../lib/ebpf/ffi.ts';
import { FixedBuffer, openFlags } from '../../../lib/ebpf/libc.ts';
import type { Entry } from '../model/entry.ts';
import type { ScanRoot } from '../model/provider.ts';
import type { ContentReader } from './content.ts';
import { Directories } from './directories.ts';
import { FileStat } from './file-stat.ts';
import type { DigestStart } from './messages.ts';
import { openName } from './open-name.ts';
import { withoutPrefix } from './scan-path.ts';
import type { RunState } from './shared-state.ts';

interface DigestContext {
  readonly root: ScanRoot;
  readonly content: ContentReader;
  readonly state: RunState;
  readonly thread: number;
}

/** Undefined where it is not what it was any more, or cannot be read. */
export function digestStart(
  { path, inode, sizeBytes }: DigestStart,
  { root, content, state, thread }: DigestContext,
): Pick<Entry, 'sha256' | 'sha512'> | undefined {
  const within = withoutPrefix(path, root.prefix);
  if (within === undefined || within === '') return undefined;
  const directories = new Directories(Buffer.from(root.directory, 'utf8').toString('latin1'));
  const slash = within.lastIndexOf('/');
  const directory = directories.openPath(within.slice(0, slash));
  if (typeof directory === 'number') return undefined;
  const [name, stat] = [new FixedBuffer(4096), new FileStat()];
  let fd = -1;
  try {
    name.writeText(within.slice(slash + 1));
    if (stat.readAt(directory.fd, name.address) !== 0 || stat.type !== 'f' || directory.isMadeUp)
      return undefined;
    fd = openName(directory.fd, name, openFlags.NOFOLLOW);
    if (fd < 0 || stat.readFd(fd) !== 0 || stat.type !== 'f') return undefined;
    if (inode !== 0n && stat.inode !== inode) return undefined;
    const digests = content.digest(fd, sizeBytes, { sha256: true, sha512: true }, state, thread);
    if (digests === undefined || typeof digests === 'number') return undefined;
    return { sha256: Uint8Array.from(digests.sha256), sha512: Uint8Array.from(digests.sha512) };
  } finally {
    if (fd >= 0) libc.close(fd);
    directories.close(directory);
  }
}
