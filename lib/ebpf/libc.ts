/** Typed wrappers of {@link libc}: descriptors as handles, errno as an error, openat2, inotify, epoll. */
import { constants as fsConstants } from 'node:fs';
import { constants as osConstants } from 'node:os';
import { getSystemErrorMap } from 'node:util';

import { errorCodes, RampartError } from '../errors/errors.ts';
import { addressOf, errno, fileCalls, libc, syscallNumbers } from './ffi.ts';

/** Flags of open(2). Those that differ between architectures are from Node.js. */
export const openFlags = {
  WRONLY: fsConstants.O_WRONLY,
  CREAT: fsConstants.O_CREAT,
  EXCL: fsConstants.O_EXCL,
  DIRECTORY: fsConstants.O_DIRECTORY,
  NOFOLLOW: fsConstants.O_NOFOLLOW,
  NONBLOCK: fsConstants.O_NONBLOCK,
  NOATIME: fsConstants.O_NOATIME,
  /** include/uapi/asm-generic/fcntl.h, the same on x86_64 and arm64. Node.js does not export these two. */
  CLOEXEC: 0o2000000,
  PATH: 0o10000000,
} as const;

/** `resolve` of openat2(2) (include/uapi/linux/openat2.h). */
export const resolveFlags = { NO_MAGICLINKS: 0x02, NO_SYMLINKS: 0x04, BENEATH: 0x08, IN_ROOT: 0x10 } as const;

/** Makes a path of the *at system calls relative to the working directory (fcntl.h). */
export const AT_FDCWD = -100;

const namesByNumber = new Map(Object.entries(osConstants.errno).map(([name, number]) => [number, name]));
// EAGAIN and EWOULDBLOCK (ENOTSUP and EOPNOTSUPP) share a number on Linux; errno(3) names these first.
for (const name of ['EAGAIN', 'EOPNOTSUPP'] as const) namesByNumber.set(osConstants.errno[name], name);
/** An errno of the kernel without a name in user space (include/linux/errno.h). */
export const ENOTSUPP = 524;
namesByNumber.set(ENOTSUPP, 'ENOTSUPP');
const systemErrors = getSystemErrorMap();

/** The name of an errno: "ENOENT" for 2, "errno 4711" for an unknown number. */
export function errnoName(number: number): string {
  return (
    namesByNumber.get(number) ??
    systemErrors.get(-number)?.[0] ??
    libbpfErrors[number - LIBBPF_ERRNO_START] ??
    `errno ${number}`
  );
}

/** Errors of libbpf itself, in the order of `enum libbpf_errno` (bpf/libbpf.h). */
const LIBBPF_ERRNO_START = 4000;
const libbpfErrors = [
  ...['LIBELF', 'FORMAT', 'KVERSION', 'ENDIAN', 'INTERNAL', 'RELOC', 'LOAD', 'VERIFY', 'PROG2BIG', 'KVER'],
  ...['PROGTYPE', 'WRNGPID', 'INVSEQ', 'NLPARSE'],
].map((name) => `LIBBPF_ERRNO__${name}`);

/** The text of an errno, for people: "no such file or directory (ENOENT)". */
export function errnoText(number: number): string {
  const name = errnoName(number);
  const text = systemErrors.get(-number)?.[1];
  return text === undefined ? name : `${text} (${name})`;
}

/** A failed system call: a `RampartError` of code `SYSTEM`, with the name of its `errno`. */
export class SystemCallError extends RampartError {
  /** The name of the errno, e.g. "ENOENT". */
  readonly errno: string;
  /** The errno itself, positive. */
  readonly number: number;

  /** @param what - What failed and on which path: "cannot open /etc/shadow". @param number - The positive errno. */
  constructor(what: string, number: number, next?: string) {
    super(errorCodes.SYSTEM, { what, why: errnoText(number), next });
    this.errno = errnoName(number);
    this.number = number;
  }
}

/** An open file descriptor, which its owner closes by disposing: `using fd = ...`. */
export class Fd implements Disposable {
  #number: number;

  /** Takes ownership of `number`: only this object may close it. */
  constructor(number: number) {
    this.#number = number;
  }

  /** @throws {RampartError} `DISPOSED` after it was closed, because the number may belong to another file by then. */
  get number(): number {
    if (this.#number < 0) {
      throw new RampartError(errorCodes.DISPOSED, { what: 'a file descriptor was used after it was closed' });
    }
    return this.#number;
  }

  [Symbol.dispose](): void {
    if (this.#number < 0) return;
    libc.close(this.#number);
    this.#number = -1;
  }
}

/** Memory that does not move, for the calls of `fileCalls`. Keep it referenced as long as C may use the address. */
export class FixedBuffer {
  readonly bytes: Buffer;
  readonly address: number;

  constructor(sizeBytes: number) {
    // Not from Node.js' pool, so that no bytes of another buffer are next to it.
    this.bytes = Buffer.allocUnsafeSlow(sizeBytes);
    this.address = Number(addressOf(this.bytes));
  }

  /** Writes a text with one byte per character, and a NUL after it. @throws {RangeError} if it does not fit */
  writeText(text: string, at = 0): void {
    if (at + text.length >= this.bytes.length) throw new RangeError(`no room for ${text.length} bytes`);
    // Most texts are short file names, for which a call into C++ would take longer than this loop.
    const { bytes } = this;
    for (let i = 0; i < text.length; i++) bytes[at + i] = text.charCodeAt(i);
    bytes[at + text.length] = 0;
  }
}

/** `struct open_how`: three u64. `mode` must be zero without CREAT. */
export interface OpenHow {
  readonly flags: number;
  readonly mode?: number;
  readonly resolve?: number;
}

/** linux/limits.h, with the terminating NUL. */
const PATH_MAX = 4096;
/** Arguments of the calls below, reused because there are thousands of calls. */
const how = new FixedBuffer(24);
how.bytes.fill(0);
const pathBytes = new FixedBuffer(PATH_MAX);

/** Writes the path into `pathBytes`. Returns 0, or the errno as a negative number. */
function putPath(path: string | Uint8Array): number {
  const { bytes } = pathBytes;
  if (typeof path !== 'string') {
    // As in the kernel, a path without a NUL within PATH_MAX bytes is too long.
    if (path.byteLength > PATH_MAX) return -osConstants.errno.ENAMETOOLONG;
    bytes.set(path);
    return 0;
  }
  // A UTF-16 unit takes at most three bytes in UTF-8.
  if (path.length * 3 >= PATH_MAX && Buffer.byteLength(path) >= PATH_MAX)
    return -osConstants.errno.ENAMETOOLONG;
  bytes[bytes.write(path)] = 0;
  return 0;
}

/**
 * How often to retry a path resolution that the kernel gives up: some 0.1 s in total. With two processes that renamed files all
 * the time, the worst of 400,000 paths took 668 attempts, and one in 500 took more than 64 (kernel 6.18, two cores).
 */
const ATTEMPTS = 8192;
const { EAGAIN, EINTR } = osConstants.errno;

/**
 * openat2(2) without exceptions, for loops in which failures are normal.
 *
 * With RESOLVE_IN_ROOT, the kernel returns EAGAIN for a path with `..`, which may come from a link, if anything was renamed or
 * mounted meanwhile, anywhere on the machine, because it cannot rule out an escape. The manual recommends to retry, with a limit.
 *
 * @param path - A path, or its bytes with the terminating NUL for names that are not UTF-8.
 * @returns a descriptor, which the caller closes, or the errno as a negative number.
 */
export function tryOpenat2(directory: Fd | number, path: string | Uint8Array, open: OpenHow): number {
  // Each field is a u64, whose upper half stays zero.
  how.bytes.writeUInt32LE(open.flags | openFlags.CLOEXEC, 0);
  how.bytes.writeUInt32LE(open.mode ?? 0, 8);
  how.bytes.writeUInt32LE(open.resolve ?? 0, 16);
  const dirFd = typeof directory === 'number' ? directory : directory.number;
  const failed = putPath(path);
  if (failed < 0) return failed;
  const attempts = ((open.resolve ?? 0) & resolveFlags.IN_ROOT) === 0 ? 1 : ATTEMPTS;
  let result = -1;
  for (let attempt = 0; attempt < attempts; attempt++) {
    const fd = fileCalls.openat2(
      syscallNumbers.openat2,
      dirFd,
      pathBytes.address,
      how.address,
      how.bytes.byteLength,
    );
    result = fd >= 0 ? fd : -errno();
    if (result !== -EAGAIN && result !== -EINTR) break;
  }
  return result;
}

/** `struct statx` (include/uapi/linux/stat.h): stx_mode is a u16 at byte 28. */
const statxBytes = new FixedBuffer(256);
const STATX_MODE_AT = 28;
const STATX_TYPE = 0x1;
const AT_EMPTY_PATH = 0x1000;
const emptyPath = new FixedBuffer(1);
emptyPath.writeText('');

/**
 * The type bits of the mode of a descriptor's file: S_IFREG, S_IFDIR, ... For a symbolic link (O_PATH | O_NOFOLLOW),
 * those of the link.
 *
 * @throws {SystemCallError} `SYSTEM`.
 */
export function fileTypeOf(fd: number): number {
  if (fileCalls.statx(fd, emptyPath.address, AT_EMPTY_PATH, STATX_TYPE, statxBytes.address) < 0)
    throw new SystemCallError(`cannot inspect descriptor ${fd}`, errno());
  return statxBytes.bytes.readUInt16LE(STATX_MODE_AT) & fsConstants.S_IFMT;
}

/** openat2(2), always with O_CLOEXEC. @throws {SystemCallError} `SYSTEM` with the errno's name and the path. */
export function openat2(directory: Fd | number, path: string, open: OpenHow): Fd {
  const fd = tryOpenat2(directory, path, open);
  if (fd < 0) throw new SystemCallError(`cannot open ${path}`, -fd);
  return new Fd(fd);
}

/** The target, as bytes, of the symbolic link to which an O_PATH | O_NOFOLLOW descriptor refers. */
export function readLink(link: Fd): Buffer {
  const target = Buffer.allocUnsafe(4096); // PATH_MAX: no target is longer (symlink(2))
  // An empty path means the descriptor itself, since Linux 2.6.39 (readlink(2)).
  const length = libc.readlinkat(link.number, '', target, target.byteLength);
  if (length < 0) throw new SystemCallError('cannot read a symbolic link', errno());
  return target.subarray(0, length);
}

/** The error for a failure because of a limit that the administrator sets. */
function sysctlLimit(what: string, sysctl: string): RampartError {
  return new RampartError(errorCodes.LIMIT, {
    what,
    why: `the limit ${sysctl} is reached`,
    next: `Raise it: sysctl ${sysctl}=VALUE`,
  });
}

/**
 * A non-blocking inotify instance (inotify(7)).
 *
 * @throws {RampartError} `LIMIT` if this user already has fs.inotify.max_user_instances instances.
 * @throws {SystemCallError} `SYSTEM` for anything else.
 */
export function inotifyInit(): Fd {
  const IN_NONBLOCK = 0o4000;
  const fd = libc.inotifyInit1(IN_NONBLOCK | openFlags.CLOEXEC);
  if (fd >= 0) return new Fd(fd);
  const number = errno();
  if (number !== osConstants.errno.EMFILE) throw new SystemCallError('cannot start inotify', number);
  throw sysctlLimit('cannot start inotify', 'fs.inotify.max_user_instances');
}

/**
 * Watches the directory or file of an O_PATH descriptor. It is named through /proc/self/fd, so that no path is resolved
 * again: the watched file is the one that was opened.
 *
 * @param shown - The path for the error message.
 * @returns the watch descriptor, always the same for the same file.
 * @throws {RampartError} `LIMIT` when fs.inotify.max_user_watches is reached.
 * @throws {SystemCallError} `SYSTEM` for anything else.
 */
export function inotifyAddWatch(
  inotify: Fd,
  { number: fd }: Pick<Fd, 'number'>,
  mask: number,
  shown: string,
): number {
  pathBytes.writeText(`/proc/self/fd/${fd}`);
  const watch = fileCalls.inotifyAddWatch(inotify.number, pathBytes.address, mask);
  if (watch >= 0) return watch;
  const number = errno();
  const what = `cannot watch ${shown}`;
  // For inotify_add_watch(2), ENOSPC means this limit, not a full disk.
  if (number === osConstants.errno.ENOSPC) throw sysctlLimit(what, 'fs.inotify.max_user_watches');
  throw new SystemCallError(what, number);
}

/** Ends a watch. It is not an error if the kernel has already ended it. */
export function inotifyRemoveWatch(inotify: Fd, watch: number): void {
  libc.inotifyRmWatch(inotify.number, watch);
}

/**
 * Reads what is available.
 *
 * @returns the number of bytes read into `buffer`; 0 if nothing is available.
 * @throws {SystemCallError} `SYSTEM`.
 */
export function readAvailable(fd: Fd, buffer: Uint8Array): number {
  const length = libc.read(fd.number, buffer, buffer.byteLength);
  if (length >= 0) return length;
  const number = errno();
  if (number === osConstants.errno.EAGAIN || number === osConstants.errno.EINTR) return 0;
  throw new SystemCallError('cannot read a descriptor', number);
}

/** Events of epoll_ctl(2). */
export const epollEvents = { PRI: 0x2 } as const;

/** @throws {SystemCallError} `SYSTEM`. */
export function epollCreate(): Fd {
  const fd = libc.epollCreate1(openFlags.CLOEXEC);
  if (fd < 0) throw new SystemCallError('cannot create an epoll descriptor', errno());
  return new Fd(fd);
}

/** @throws {SystemCallError} `SYSTEM`. */
export function epollAdd(epoll: Fd, fd: number, events: number): void {
  const EPOLL_CTL_ADD = 1;
  // struct epoll_event is packed on x86_64 (12 bytes) and aligned elsewhere (16); `events` is first in both.
  const event = new Uint8Array(16);
  new DataView(event.buffer).setUint32(0, events, true);
  if (libc.epollCtl(epoll.number, EPOLL_CTL_ADD, fd, event) < 0) {
    throw new SystemCallError('cannot add a descriptor to epoll', errno());
  }
}

/**
 * A descriptor that becomes readable when process `pid` has ended (pidfd_open(2), Linux 5.3).
 *
 * @throws {SystemCallError} `SYSTEM`; ESRCH when there is no such process.
 */
export function pidfdOpen(pid: number): Fd {
  const fd = libc.pidfdOpen(syscallNumbers.pidfdOpen, pid, 0);
  if (fd < 0) throw new SystemCallError(`cannot follow process ${pid}`, errno());
  return new Fd(fd);
}
