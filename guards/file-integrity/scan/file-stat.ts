/** Calls statx(2) with reused memory and without creating objects, because most files are examined three times. */
import { errno, fileCalls } from '../../../lib/ebpf/ffi.ts';
import { FixedBuffer } from '../../../lib/ebpf/libc.ts';
import type { FileType } from '../model/entry.ts';

/** From include/uapi/linux/fcntl.h. */
const AT_SYMLINK_NOFOLLOW = 0x100;
const AT_NO_AUTOMOUNT = 0x800;
const AT_EMPTY_PATH = 0x1000;
/** From include/uapi/linux/stat.h. */
const STATX_BASIC_STATS = 0x7ff;
const STATX_ATTR_AUTOMOUNT = 0x1000;
const statxBytes = 256;

const emptyText = new FixedBuffer(8);
emptyText.writeText('');

/** File types by the four type bits of `st_mode` (inode(7)), 0 to 15. */
const types: Readonly<Record<number, FileType>> = {
  1: 'p',
  2: 'c',
  4: 'd',
  6: 'b',
  8: 'f',
  10: 'l',
  12: 's',
};

/** The type for `st_mode >> 12`, or for `d_type` of getdents64(2), which has the same values. */
export function typeOfBits(bits: number): FileType | undefined {
  return types[bits];
}

export class FileStat {
  readonly #buffer = new FixedBuffer(statxBytes);
  readonly #u32 = new Uint32Array(this.#buffer.bytes.buffer, this.#buffer.bytes.byteOffset, statxBytes / 4);

  /** Reads the stat of a name in a directory; neither follows a link nor triggers a mount. Returns 0 or the errno. */
  readAt(dirFd: number, nameAddress: number): number {
    return this.#read(dirFd, nameAddress, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT);
  }

  /** Reads the stat of an open file. Returns 0 or the errno. */
  readFd(fd: number): number {
    return this.#read(fd, emptyText.address, AT_EMPTY_PATH | AT_NO_AUTOMOUNT);
  }

  #read(fd: number, path: number, flags: number): number {
    return fileCalls.statx(fd, path, flags, STATX_BASIC_STATS, this.#buffer.address) === 0 ? 0 : errno();
  }

  // Offsets in struct statx, in units of four bytes.
  get isAutomount(): boolean {
    return (this.#word(2) & STATX_ATTR_AUTOMOUNT) !== 0;
  }
  get linkCount(): number {
    return this.#word(4);
  }
  get uid(): number {
    return this.#word(5);
  }
  get gid(): number {
    return this.#word(6);
  }
  get mode(): number {
    return this.#word(7) & 0xffff;
  }
  get type(): FileType {
    // Linux has no other types.
    return types[this.mode >> 12] ?? 'f';
  }
  get inode(): bigint {
    return (BigInt(this.#word(9)) << 32n) | BigInt(this.#word(8));
  }
  get sizeBytes(): number {
    return this.#double(10);
  }
  get blockCount(): number {
    return this.#double(12);
  }
  get accessTimeS(): number {
    return this.#seconds(16);
  }
  get changeTimeS(): number {
    return this.#seconds(24);
  }
  get modifyTimeS(): number {
    return this.#seconds(28);
  }
  /** A unique number for each device. */
  get device(): number {
    return this.#word(34) * 2 ** 20 + this.#word(35);
  }

  /** Whether it is the same file, even if it has changed. */
  isSameFile(other: FileStat): boolean {
    return (
      this.#word(8) === other.#word(8) &&
      this.#word(9) === other.#word(9) &&
      this.#word(34) === other.#word(34) &&
      this.#word(35) === other.#word(35) &&
      this.type === other.type
    );
  }

  /**
   * Whether the file has not changed since before it was read, so that all that was read is consistent. The
   * modification time is checked too: file systems without a change time (FAT) return another time for it.
   */
  hasRested(sinceS: number): boolean {
    return this.changeTimeS < sinceS && this.modifyTimeS < sinceS;
  }

  /**
   * Whether mode, owner, links, size, change time and modification time, including nanoseconds, are equal. The access
   * time may differ.
   */
  isUnchanged(other: FileStat): boolean {
    for (let at = 4; at <= 13; at++) if (this.#word(at) !== other.#word(at)) return false;
    for (let at = 24; at <= 30; at++) if (at !== 27 && this.#word(at) !== other.#word(at)) return false;
    return this.isSameFile(other);
  }

  #word(at: number): number {
    return this.#u32[at] ?? 0;
  }

  #double(at: number): number {
    return this.#word(at + 1) * 2 ** 32 + this.#word(at);
  }

  #seconds(at: number): number {
    return (this.#word(at + 1) | 0) * 2 ** 32 + this.#word(at);
  }
}
