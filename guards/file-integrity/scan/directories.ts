/**
 * Opens and lists the directories of the scanned tree. No symbolic link on the way is followed: a directory that is
 * replaced by one cannot be opened. The names of a path are opened one by one, so it may be longer than PATH_MAX.
 */
import { constants } from 'node:os';

import { errno, fileCalls, libc } from '../../../lib/ebpf/ffi.ts';
import { AT_FDCWD, FixedBuffer, openFlags } from '../../../lib/ebpf/libc.ts';
import { type ByteString, isAtOrBelow } from '../model/entry.ts';
import type { OpenDirectory } from './file-look.ts';
import { FileStat, typeOfBits } from './file-stat.ts';
import { openName } from './open-name.ts';
import { type DirectoryIdentity, typeCode } from './tasks.ts';

const { ENOTDIR } = constants.errno;
const listBytes = 64 * 1024;
/** Offsets in struct linux_dirent64 (getdents64(2)). */
const lengthAt = 16;
const typeAt = 18;
const nameAt = 19;
const DT_DIR = 4;
const dot = 0x2e;
/** Limit of `../` in one call: a path passed to the kernel may have 4,095 bytes. */
const levelsAtOnce = 1000;

export interface Directory extends OpenDirectory, DirectoryIdentity {}

export interface OpenPlace {
  readonly path: ByteString;
  readonly directory: Directory;
}

/** Receives a name in a directory in the form of an item (tasks.ts); its type may have changed since it was listed. */
export type OnItem = (item: string, isDirectory: boolean) => void;

export class Directories {
  readonly #root: string;
  readonly #name = new FixedBuffer(8192);
  readonly #list = new FixedBuffer(listBytes + 1);
  readonly #stat = new FileStat();

  /** @param root the path of the scanned directory, with one character for each byte; a symbolic link is followed */
  constructor(root: string) {
    this.#root = root;
  }

  /** Opens the root for listing. Returns the errno as a negative number if it fails. */
  openRoot(): Directory | number {
    return this.#opened(this.#openRoot(openFlags.DIRECTORY));
  }

  /**
   * Opens a directory below the root to look up names in it, but not to list it. Returns the errno as a negative number
   * if it fails.
   *
   * @param near an open directory from which the path may be shorter: an ancestor, or a descendant if `identity` is
   *   known
   */
  openPath(path: ByteString, near?: OpenPlace, identity?: DirectoryIdentity): Directory | number {
    if (near !== undefined && isAtOrBelow(path, near.path)) {
      this.#name.writeText('.');
      const fd = this.#openAt(near.directory.fd, openFlags.DIRECTORY | openFlags.PATH);
      return this.#openBelow(fd, path, near.path.length);
    }
    if (near !== undefined && identity !== undefined && isAtOrBelow(near.path, path)) {
      const directory = this.#openAbove(near, path);
      if (typeof directory !== 'number') {
        if (directory.inode === identity.inode && directory.device === identity.device) return directory;
        // The descendant was moved elsewhere, so its ancestor is another directory.
        this.close(directory);
      }
    }
    return this.#openBelow(this.#openRoot(openFlags.DIRECTORY | openFlags.PATH), path, 0);
  }

  #openAbove({ path, directory }: OpenPlace, above: ByteString): Directory | number {
    let levels = depthOf(path) - depthOf(above);
    let { fd } = directory;
    for (; fd >= 0 && levels > 0; levels -= levelsAtOnce) {
      this.#name.writeText('../'.repeat(Math.min(levels, levelsAtOnce)));
      const next = this.#openAt(fd, openFlags.DIRECTORY | openFlags.PATH);
      if (fd !== directory.fd) libc.close(fd);
      fd = next;
    }
    return this.#opened(fd, directory);
  }

  /** @param start an open descriptor, closed here; its directory has the first `length` bytes of `path` */
  #openBelow(start: number, path: ByteString, length: number): Directory | number {
    let fd = start;
    for (let at = length + 1; fd >= 0 && at < path.length;) {
      let end = path.indexOf('/', at);
      if (end === -1) end = path.length;
      this.#name.writeText(path.slice(at, end));
      const next = this.#openAt(fd, openFlags.DIRECTORY | openFlags.NOFOLLOW | openFlags.PATH);
      libc.close(fd);
      fd = next;
      at = end + 1;
    }
    return this.#opened(fd);
  }

  /**
   * Opens a directory within another one for listing. Returns the errno as a negative number if it fails, and 0 if
   * opening it would mount something (autofs(5)).
   */
  openChild(parent: Directory, name: ByteString): Directory | number {
    this.#name.writeText(name);
    const number = this.#stat.readAt(parent.fd, this.#name.address);
    if (number !== 0) return -number;
    if (this.#stat.type !== 'd') return -ENOTDIR;
    if (this.#stat.isAutomount) return 0;
    return this.#opened(openName(parent.fd, this.#name, openFlags.DIRECTORY | openFlags.NOFOLLOW), parent);
  }

  /** Lists a directory. Returns 0 or the errno as a negative number; some names may have been reported before an error. */
  list(directory: Directory, onItem: OnItem): number {
    const { address, bytes } = this.#list;
    for (;;) {
      const length = fileCalls.getdents64(directory.fd, address, listBytes);
      if (length <= 0) return length === 0 ? 0 : -errno();
      this.#writeTypes(length);
      // Convert all records in one call: each item is then a substring.
      this.#notify(bytes.toString('latin1', 0, length + 1), length, onItem);
    }
  }

  #notify(text: string, length: number, onItem: OnItem): void {
    const { bytes } = this.#list;
    for (let at = 0, next = 0; at < length; at = next) {
      next = at + this.#recordBytes(at);
      const item = text.slice(at + nameAt, this.#endOfName(at, next) + 2);
      if (item.charCodeAt(0) !== dot || !/^\.\.?\0/.test(item)) onItem(item, bytes[at + typeAt] === DT_DIR);
    }
  }

  /**
   * Turns each name into an item in place, by writing its type after its NUL. That byte is padding, or part of the next
   * record's inode number, which is not needed.
   */
  #writeTypes(length: number): void {
    const { bytes } = this.#list;
    for (let at = 0, next = 0; at < length; at = next) {
      next = at + this.#recordBytes(at);
      bytes[this.#endOfName(at, next) + 1] = typeCode(typeOfBits(bytes[at + typeAt] ?? 0) ?? '?');
    }
  }

  #recordBytes(at: number): number {
    const { bytes } = this.#list;
    return (bytes[at + lengthAt] ?? 0) + ((bytes[at + lengthAt + 1] ?? 0) << 8);
  }

  /** The position of a name's NUL: within the last eight bytes of the record, because records are aligned to eight. */
  #endOfName(at: number, next: number): number {
    const { bytes } = this.#list;
    let end = Math.max(at + nameAt, next - 8);
    while (bytes[end] !== 0) end++;
    return end;
  }

  close({ fd }: Directory): void {
    libc.close(fd);
  }

  #openRoot(flags: number): number {
    this.#name.writeText(this.#root);
    return this.#openAt(AT_FDCWD, flags | openFlags.NONBLOCK);
  }

  #openAt(fd: number, flags: number): number {
    const opened = fileCalls.openat(fd, this.#name.address, flags | openFlags.CLOEXEC, 0);
    return opened >= 0 ? opened : -errno();
  }

  #opened(fd: number, parent?: Directory): Directory | number {
    if (fd < 0) return fd;
    const number = this.#stat.readFd(fd);
    if (number !== 0) {
      libc.close(fd);
      return -number;
    }
    const { device, inode } = this.#stat;
    return { fd, device, inode, isMadeUp: parent?.device === device ? parent.isMadeUp : isMadeUp(fd) };
  }
}

/** Number of levels of a path below the root. */
export function depthOf(path: ByteString): number {
  let depth = 0;
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) depth++;
  return depth;
}

/** Magic numbers of file systems, from include/uapi/linux/magic.h and the file systems themselves. */
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

/** Whether files on this file system are generated by the kernel, so that their contents must not be read. */
function isMadeUp(fd: number): boolean {
  // If fstatfs fails, it is not one of the kernel's own file systems.
  if (fileCalls.fstatfs(fd, statfs.address) !== 0) return false;
  return madeUp.has(statfs.bytes.readUInt32LE(0));
}
