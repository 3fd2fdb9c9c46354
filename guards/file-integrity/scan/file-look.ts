/**
 * Looks at one file: its stat, what it has beside that, its content. Nothing but a regular file is ever opened, and what was
 * opened is what was seen before: names may be swapped at any moment.
 */
import { constants } from 'node:os';

import { errno, fileCalls, libc } from '../../../lib/ebpf/ffi.ts';
import { errnoName, FixedBuffer, openFlags } from '../../../lib/ebpf/libc.ts';
import { type AttributeSet, checksums, setOf } from '../model/attributes.ts';
import { emptyDraft, type Draft, type FileType, largeCode } from '../model/entry.ts';
import { type AskedOf, mayGrow, unionOf } from './selected.ts';
import type { ContentReader, Wanted } from './content.ts';
import { extendedBits, ExtendedAttributes } from './extended-attributes.ts';
import { FileStat } from './file-stat.ts';
import { openName } from './open-name.ts';
import type { RunState } from './shared-state.ts';

const { EAGAIN, ENOENT, ENOTDIR, ELOOP, ENXIO, EISDIR } = constants.errno;
/** The name was taken away or given to something else: it has to be examined again. */
const swapped: ReadonlySet<number> = new Set([ENOENT, ENOTDIR, ELOOP, ENXIO, EISDIR]);
const tries = 3;
/**
 * Our open makes the kernel ask the holder of a lease to give it back, usually within some ms: a walk waits
 * this long in all.
 */
const leaseMs = 10_000;
const leaseStepMs = 5;
/** include/uapi/linux/fs.h: _IOR('f', 1, long). */
const FS_IOC_GETFLAGS = 0x80086601;
const longestTarget = 65_536;

const bits = {
  linkTarget: setOf('l'),
  acl: setOf('acl'),
  inode: setOf('i', 'I'),
  timesAndBlocks: setOf('b', 'a', 'm', 'c'),
  capabilities: setOf('caps'),
  e2fsAttributes: setOf('e2fsattrs'),
  sha256: setOf('sha256'),
  sha512: setOf('sha512'),
};

/** Attributes that are read one by one, besides the stat. */
const besideStat = extendedBits | bits.e2fsAttributes;

/** Attributes for which a regular file is opened. */
const needOpen = checksums | bits.e2fsAttributes;

/** A directory that a file lies in. */
export interface OpenDirectory {
  readonly fd: number;
  /** Its files are made up when they are read, see directories.ts. */
  readonly isMadeUp: boolean;
}

export type LookOutcome =
  /** `entry` and `asked` describe this file. */
  | 'seen'
  /** The same, with a reported problem. */
  | 'problem'
  | 'gone'
  | 'not selected'
  /** Not examined: its content is more than may be read, or it has to be waited for and the thread may not wait. */
  | 'not here';

/** One for each thread. Its results are for the last file. */
export class FileLook {
  /** Without a path, and with all attributes that are known of it, whoever asked. */
  readonly entry: Draft = { ...emptyDraft };
  /** For each configuration, without unknown attributes; -1 if it does not select the file. */
  known: AttributeSet[] = [];
  /** The problem of the last look, also of one at a path that is not a directory. */
  problem = { code: '', message: '' };
  /** Limit for the content that is read. */
  maxBytes = Infinity;
  /** As in ScanOptions. */
  readonly #largeBytes: number;
  readonly #stat = new FileStat();
  readonly #again = new FileStat();
  readonly #name = new FixedBuffer(4096);
  readonly #target = new FixedBuffer(longestTarget);
  readonly #flags = new FixedBuffer(8);
  readonly #extended = new ExtendedAttributes();
  readonly #content: ContentReader;
  readonly #state: RunState;
  readonly #thread: number;
  /** A file that was not changed since, in seconds since 1970, is examined once it is read; none if undefined. */
  #restedSinceS: number | undefined;
  /** The rest of {@link leaseMs}. */
  #leaseMs = 0;

  constructor(content: ContentReader, state: RunState, thread: number, largeBytes: number) {
    this.#content = content;
    this.#largeBytes = largeBytes;
    this.#state = state;
    this.#thread = thread;
  }

  /** Called before the looks of a walk, which is too short for it to become outdated. */
  begin(): void {
    this.#leaseMs = leaseMs;
    const { restMs } = this.#content;
    this.#restedSinceS = restMs === undefined ? undefined : (Date.now() - restMs) / 1000;
  }

  /**
   * @param asRegular the requested attributes, if its directory listed a regular file of that name: then it is opened
   * without another look at the name, and its type is checked once it is open @throws StoppedError
   */
  look(
    directory: OpenDirectory,
    name: string,
    askedOf: AskedOf,
    asRegular?: readonly AttributeSet[],
  ): LookOutcome {
    this.#name.writeText(name);
    let left = tries - 1;
    if (asRegular !== undefined && !directory.isMadeUp && (unionOf(asRegular) & needOpen) !== 0) {
      const outcome = this.#openFirst(directory, name, asRegular);
      if (outcome !== 'again') return outcome;
      left--;
    }
    for (; ; left--) {
      const number = this.#stat.readAt(directory.fd, this.#name.address);
      if (number !== 0) {
        if (swapped.has(number)) return 'gone';
        return this.#failed('cannot inspect it', number, 'not selected');
      }
      const outcome = this.#once(directory, name, askedOf, left === 0);
      if (outcome !== 'again') return outcome;
      this.#state.throwIfStopped();
    }
  }

  /** For an open directory, the root itself. */
  lookAtRoot(fd: number, askedOf: AskedOf): LookOutcome {
    const number = this.#stat.readFd(fd);
    if (number !== 0) return this.#failed('cannot inspect it', number, 'not selected');
    const asked = askedOf('d');
    if (asked === undefined) return 'not selected';
    this.#fill(asked);
    this.#forget(checksums | bits.linkTarget);
    return this.#beside(fd, '', this.known);
  }

  /** Returns the outcome without the problem. */
  #failed(what: string, number: number, otherwise: 'seen' | 'not selected'): 'problem' {
    const code = errnoName(number);
    this.problem = { code, message: `${what} (${code})` };
    if (otherwise === 'not selected') this.known = [];
    return 'problem';
  }

  #openFirst(directory: OpenDirectory, name: string, asked: readonly AttributeSet[]): LookOutcome | 'again' {
    const fd = openName(directory.fd, this.#name, openFlags.NOFOLLOW);
    // The look at its name reports the reason.
    if (fd < 0) return 'again';
    try {
      const isRead = this.#readFirst(fd, asked);
      if (!isRead && (this.#stat.readFd(fd) !== 0 || this.#stat.type !== 'f')) return 'again';
      this.#fill(asked);
      this.#forget(bits.linkTarget);
      if (isRead) return 'seen';
      return this.#ofOpen(fd, directory.fd, () => `/proc/self/fd/${directory.fd}/${name}`, false);
    } finally {
      libc.close(fd);
    }
  }

  /**
   * One look less: a file that is read before it is examined was not changed between the two when its last change is older.
   * Returns false if it is not older.
   */
  #readFirst(fd: number, asked: readonly AttributeSet[]): boolean {
    const union = unionOf(asked);
    if ((union & checksums) === 0 || (union & besideStat) !== 0) return false;
    const sinceS = this.#restedSinceS;
    if (sinceS === undefined) return false;
    const length = this.#content.readStart(fd);
    const stat = this.#stat;
    if (length < 0 || stat.readFd(fd) !== 0 || stat.type !== 'f') return false;
    if (stat.sizeBytes !== length || !stat.hasRested(sinceS)) return false;
    const { sha256, sha512 } = this.#content.digestsOf(length, wantedOf(union), this.#state, this.#thread);
    this.entry.sha256 = sha256;
    this.entry.sha512 = sha512;
    return true;
  }

  #ofOpen(fd: number, directoryFd: number, path: () => string, isLast: boolean): LookOutcome | 'again' {
    const hasContent = (this.#union() & checksums) !== 0;
    if (hasContent && this.#stat.sizeBytes > this.maxBytes) return 'not here';
    const beside = this.#finish(directoryFd, fd, path, 'f');
    if (hasContent && this.#stat.sizeBytes > this.#largeBytes) {
      this.#forget(checksums);
      this.problem = { code: largeCode, message: 'its content is read after that of the other files' };
      return 'problem';
    }
    const outcome = hasContent ? this.#digest(directoryFd, fd, isLast) : 'seen';
    return outcome === 'seen' ? beside : outcome;
  }

  #once(directory: OpenDirectory, name: string, askedOf: AskedOf, isLast: boolean): LookOutcome | 'again' {
    const stat = this.#stat;
    const { type } = stat;
    const asked = askedOf(type);
    if (asked === undefined) return 'not selected';
    this.#fill(asked);
    const union = this.#union();
    const path = (): string => `/proc/self/fd/${directory.fd}/${name}`;
    if (type === 'l') {
      if ((union & bits.linkTarget) !== 0 && !this.#readLink(directory.fd)) return 'again';
    } else this.#forget(bits.linkTarget);
    if (type !== 'f') {
      this.#forget(checksums);
      if (type !== 'd' || directory.isMadeUp) this.#forget(bits.e2fsAttributes);
      // A link has neither; AIDE takes capabilities, and with acl_no_symlink_follow ACLs, from wherever it leads.
      if (type === 'l') this.#forget(bits.acl | bits.capabilities);
      return this.#finish(directory.fd, -1, path, type);
    }
    if (directory.isMadeUp) this.#forget(needOpen);
    if ((this.#union() & needOpen) === 0) return this.#finish(directory.fd, -1, path, type);
    let fd = openName(directory.fd, this.#name, openFlags.NOFOLLOW);
    if (fd === -EAGAIN) {
      if (!this.#content.mayWait) return 'not here';
      fd = this.#openLeased(directory.fd);
    }
    if (fd < 0) {
      if (fd === -ENOENT) return 'gone';
      if (swapped.has(-fd)) return isLast ? this.#changed(path) : 'again';
      this.#forget(needOpen);
      this.#finish(directory.fd, -1, path, type);
      return this.#failed('cannot open it', -fd, 'seen');
    }
    try {
      if (this.#again.readFd(fd) !== 0 || !this.#again.isSameFile(stat)) {
        return isLast ? this.#changed(path) : 'again';
      }
      return this.#ofOpen(fd, directory.fd, path, isLast);
    } finally {
      libc.close(fd);
    }
  }

  /**
   * Like openName, once no process has a lease on it any longer (fcntl(2), F_SETLEASE); EAGAIN if that takes
   * too long.
   */
  #openLeased(directoryFd: number): number {
    let fd = -EAGAIN;
    while (fd === -EAGAIN && this.#leaseMs > 0) {
      this.#leaseMs -= leaseStepMs;
      this.#state.wait(leaseStepMs);
      fd = openName(directoryFd, this.#name, openFlags.NOFOLLOW);
    }
    return fd;
  }

  #digest(directoryFd: number, fd: number, isLast: boolean): LookOutcome | 'again' {
    const union = this.#union();
    const { sizeBytes } = this.#stat;
    const isStill = (): boolean =>
      this.#again.readAt(directoryFd, this.#name.address) === 0 &&
      this.#again.isSameFile(this.#stat) &&
      (this.#again.isUnchanged(this.#stat) || this.#hasOnlyGrown());
    const content = { fd, sizeBytes, blockCount: this.#stat.blockCount, isStill };
    const digests = this.#content.digest(content, wantedOf(union), this.#state, this.#thread);
    if (typeof digests === 'number') {
      if (swapped.has(-digests) && !isLast) return 'again';
      this.#forget(checksums);
      return this.#failed('cannot read it', -digests, 'seen');
    }
    if (digests !== undefined) {
      this.entry.sha256 = digests.sha256;
      this.entry.sha512 = digests.sha512;
      if (this.#again.readFd(fd) === 0) {
        if (this.#again.isUnchanged(this.#stat)) return 'seen';
        if (this.#hasOnlyGrown()) return 'seen';
      }
    }
    if (!isLast) return 'again';
    const isWhole = digests !== undefined && this.#again.sizeBytes >= sizeBytes;
    this.known = this.known.map((set) => (set !== -1 && !(isWhole && mayGrow(set)) ? set & ~checksums : set));
    return this.#alwaysChanges();
  }

  /** The content at the time of the look is still there, with more after it, which was not requested. */
  #hasOnlyGrown(): boolean {
    return this.#again.sizeBytes >= this.#stat.sizeBytes && this.known.every(mayGrow);
  }

  #changed(path: () => string): LookOutcome {
    this.#forget(needOpen);
    this.#finish(-1, -1, path, 'f');
    return this.#alwaysChanges();
  }

  #alwaysChanges(): LookOutcome {
    this.problem = {
      code: 'CHANGED',
      message: `it changed while it was being read, ${tries} times in a row`,
    };
    return 'problem';
  }

  #fill(asked: readonly AttributeSet[]): void {
    const { entry } = this;
    const stat = this.#stat;
    this.known = asked.slice();
    entry.type = stat.type;
    entry.permissions = stat.mode & 0o7777;
    entry.uid = stat.uid;
    entry.gid = stat.gid;
    entry.linkCount = stat.linkCount;
    entry.sizeBytes = stat.sizeBytes;
    const union = this.#union();
    if ((union & bits.timesAndBlocks) !== 0) {
      entry.blockCount = stat.blockCount;
      entry.accessTimeS = stat.accessTimeS;
      entry.modifyTimeS = stat.modifyTimeS;
      entry.changeTimeS = stat.changeTimeS;
    }
    if ((union & bits.inode) !== 0) entry.inode = stat.inode;
  }

  /** Reads the attributes besides the stat, of a file that is open or not. */
  #finish(directoryFd: number, fd: number, path: () => string, type: FileType): 'seen' | 'problem' {
    const union = this.#union();
    if ((union & besideStat) === 0) return 'seen';
    let opened = -1;
    // The flags of a directory are read from a descriptor; opening it has no effect.
    if (type === 'd' && (union & bits.e2fsAttributes) !== 0)
      opened = openName(directoryFd, this.#name, openFlags.NOFOLLOW | openFlags.DIRECTORY);
    try {
      return this.#beside(opened >= 0 ? opened : fd, path(), this.known);
    } finally {
      if (opened >= 0) libc.close(opened);
    }
  }

  #beside(fd: number, path: string, asked: readonly AttributeSet[]): 'seen' | 'problem' {
    const union = unionOf(asked);
    const stat = this.#stat;
    if ((union & bits.e2fsAttributes) !== 0) {
      this.#flags.bytes.fill(0);
      if (fd >= 0 && libc.ioctl(fd, FS_IOC_GETFLAGS, this.#flags.address) === 0) {
        this.entry.e2fsAttributes = this.#flags.bytes.readUInt32LE(0);
      } else this.#forget(bits.e2fsAttributes);
    }
    const wanted = union & extendedBits;
    if (wanted === 0) return 'seen';
    const about = { mode: stat.mode, isDirectory: stat.type === 'd', device: stat.device };
    this.#forget(this.#extended.read({ fd, path }, about, wanted, this.entry));
    const { errno: number } = this.#extended;
    if (number === 0) return 'seen';
    return this.#failed('cannot list its extended attributes', number, 'seen');
  }

  #readLink(directoryFd: number): boolean {
    const length = fileCalls.readlinkat(directoryFd, this.#name.address, this.#target.address, longestTarget);
    if (length < 0) {
      if (swapped.has(errno())) return false;
      this.#forget(bits.linkTarget);
    } else this.entry.linkTarget = this.#target.bytes.toString('latin1', 0, length);
    return true;
  }

  #forget(set: AttributeSet): void {
    const { known } = this;
    if (set === 0) return;
    for (let at = 0; at < known.length; at++) {
      const of = known[at] ?? -1;
      if (of !== -1) known[at] = of & ~set;
    }
  }

  #union(): AttributeSet {
    return unionOf(this.known);
  }
}

function wantedOf(set: AttributeSet): Wanted {
  return { sha256: (set & bits.sha256) !== 0, sha512: (set & bits.sha512) !== 0 };
}
