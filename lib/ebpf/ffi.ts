/**
 * The only file that uses the FFI library. It declares the C functions of libc and libnftables that Rampart calls, with
 * their TypeScript types, and loads libbpf. All code that calls the kernel directly builds on it.
 *
 * Conventions: a C pointer is a `bigint` (a null pointer is `null`, never 0n); a byte buffer is passed as a `Uint8Array`
 * and has to stay referenced as long as C may use it; after a call that reports failure through errno, read
 * {@link errno} before any other call.
 */
import koffi, { type LibraryHandle } from 'koffi';

import { errorCodes, messageOf, RampartError } from '../errors/errors.ts';
import { declareLibbpf, type Libbpf, type Pointer } from './libbpf-prototypes.ts';

export type { Libbpf, Pointer };

function loadLibrary(name: string, aptPackage: string): LibraryHandle {
  try {
    return koffi.load(name);
  } catch (error) {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: `cannot load ${name}`,
      why: messageOf(error),
      next: `Install it: apt-get install ${aptPackage}`,
    });
  }
}

const clib = loadLibrary('libc.so.6', 'libc6');

/** Declares a function of libc by its C prototype, against which koffi checks the arguments of each call. */
function c<F>(prototype: string): F {
  return clib.func(prototype) as F;
}

/** libc, as declared in its headers. Failing calls return -1 and leave the reason in {@link errno}. */
export const libc = {
  close: c<(fd: number) => number>('int close(int)'),
  read: c<(fd: number, buffer: Uint8Array, sizeBytes: number) => number>(
    'long read(int, _Out_ void *, size_t)',
  ),
  write: c<(fd: number, buffer: Uint8Array, sizeBytes: number) => number>(
    'long write(int, const void *, size_t)',
  ),
  mmap: c<
    (address: null, sizeBytes: number, prot: number, flags: number, fd: number, offset: number) => Pointer
  >('uintptr_t mmap(void *, size_t, int, int, int, int64_t)'),
  munmap: c<(address: Pointer, sizeBytes: number) => number>('int munmap(uintptr_t, size_t)'),
  /** pidfd_open(2): glibc 2.36 has it, older ones do not. */
  pidfdOpen: c<(number: number, pid: number, flags: number) => number>(
    'long syscall(long, int, unsigned int)',
  ),
  /** bpf(2), for the probes, which need the kernel's own errno. */
  bpf: c<(number: number, command: number, attr: Uint8Array, sizeBytes: number) => number>(
    'long syscall(long, int, _Inout_ void *, unsigned int)',
  ),
  /** perf_event_open(2): for the probes. */
  perfEventOpen: c<
    (number: number, attr: Uint8Array, pid: number, cpu: number, groupFd: number, flags: number) => number
  >('long syscall(long, const void *, int, int, int, unsigned long)'),
  faccessat: c<(dirFd: number, path: string, mode: number, flags: number) => number>(
    'int faccessat(int, const char *, int, int)',
  ),
  readlinkat: c<(dirFd: number, path: string, buffer: Uint8Array, sizeBytes: number) => number>(
    'long readlinkat(int, const char *, _Out_ void *, size_t)',
  ),
  inotifyInit1: c<(flags: number) => number>('int inotify_init1(int)'),
  inotifyRmWatch: c<(fd: number, watch: number) => number>('int inotify_rm_watch(int, int)'),
  epollCreate1: c<(flags: number) => number>('int epoll_create1(int)'),
  epollCtl: c<(epollFd: number, op: number, fd: number, event: Uint8Array) => number>(
    'int epoll_ctl(int, int, int, void *)',
  ),
  /** Fills `timespec`, two i64: seconds and nanoseconds. */
  clockGettime: c<(clock: number, timespec: Uint8Array) => number>('int clock_gettime(int, _Out_ void *)'),
  sysconf: c<(name: number) => number>('long sysconf(int)'),
  /** ioctl(2) with a plain number as its argument. */
  ioctl: c<(fd: number, request: number, argument: number) => number>('int ioctl(int, unsigned long, long)'),
  socket: c<(family: number, type: number, protocol: number) => number>('int socket(int, int, int)'),
  bind: c<(fd: number, address: Uint8Array, sizeBytes: number) => number>(
    'int bind(int, const void *, unsigned int)',
  ),
  /** fsopen(2), since 5.2: glibc 2.36 has it, older ones do not. */
  fsopen: c<(number: number, type: string, flags: number) => number>(
    'long syscall(long, const char *, unsigned int)',
  ),
  fsconfig: c<
    (
      number: number,
      fd: number,
      command: number,
      key: string | null,
      value: null,
      auxiliary: number,
    ) => number
  >('long syscall(long, int, unsigned int, const char *, void *, int)'),
  fsmount: c<(number: number, fd: number, flags: number, attributes: number) => number>(
    'long syscall(long, int, unsigned int, unsigned int)',
  ),
  fspick: c<(number: number, dirFd: number, path: string, flags: number) => number>(
    'long syscall(long, int, const char *, unsigned int)',
  ),
  /** open_tree(2), since 5.2. */
  openTree: c<(number: number, dirFd: number, path: string, flags: number) => number>(
    'long syscall(long, int, const char *, unsigned int)',
  ),
  /** move_mount(2), since 5.2. */
  moveMount: c<
    (number: number, fromFd: number, from: string, toFd: number, to: string, flags: number) => number
  >('long syscall(long, int, const char *, int, const char *, unsigned int)'),
  umount2: c<(path: string, flags: number) => number>('int umount2(const char *, int)'),
  dup2: c<(from: number, to: number) => number>('int dup2(int, int)'),
  connect: c<(fd: number, address: Uint8Array, sizeBytes: number) => number>(
    'int connect(int, const void *, uint32_t)',
  ),
  setsockopt: c<(fd: number, level: number, option: number, value: Uint8Array, sizeBytes: number) => number>(
    'int setsockopt(int, int, int, const void *, uint32_t)',
  ),
  /** Fills `value`; `size` is in and out. */
  getsockopt: c<(fd: number, level: number, option: number, value: Uint8Array, size: [number]) => number>(
    'int getsockopt(int, int, int, _Out_ void *, _Inout_ uint32_t *)',
  ),
  send: c<(fd: number, buffer: Uint8Array, sizeBytes: number, flags: number) => number>(
    'long send(int, const void *, size_t, int)',
  ),
  /** `rlimit` is two u64: the soft and the hard limit. */
  setrlimit: c<(resource: number, rlimit: Uint8Array) => number>('int setrlimit(int, const void *)'),
  /** lsm_list_modules(2), since 6.8; fills `ids` with u64, `size` is in and out. */
  lsmListModules: c<(number: number, ids: Uint8Array, size: [number], flags: number) => number>(
    'long syscall(long, _Out_ void *, _Inout_ uint32_t *, uint32_t)',
  ),
  /** Formats a message with the va_list that C passed to a callback. */
  vsnprintf: c<(buffer: Uint8Array, sizeBytes: number, format: Pointer, args: Pointer) => number>(
    'int vsnprintf(_Out_ void *, size_t, void *, void *)',
  ),
  /**
   * Moves only the calling thread: sockets and processes that it creates later are in that namespace.
   */
  setns: c<(fd: number, namespaceType: number) => number>('int setns(int, int)'),
  memfdCreate: c<(name: string, flags: number) => number>('int memfd_create(const char *, unsigned int)'),
  unshare: c<(flags: number) => number>('int unshare(int)'),
  /** Gives freed memory back to the kernel: libbpf parses megabytes of BTF while it loads. */
  mallocTrim: c<(padBytes: number) => number>('int malloc_trim(size_t)'),
} as const;

/**
 * Functions that are called hundreds of thousands of times. Here, a pointer is a plain number (addresses in user space are below
 * 2 ** 53), so that a call allocates no JavaScript object: keep the memory in a buffer that does not move, see {@link addressOf}.
 */
export const fileCalls = {
  openat: c<(dirFd: number, path: number, flags: number, mode: number) => number>(
    'int openat(int, uintptr_t, int, unsigned int)',
  ),
  read: c<(fd: number, buffer: number, sizeBytes: number) => number>('long read(int, uintptr_t, size_t)'),
  pread: c<(fd: number, buffer: number, sizeBytes: number, offset: number) => number>(
    'long pread64(int, uintptr_t, size_t, int64_t)',
  ),
  /** glibc 2.26. `vector` is a `struct iovec`: address and length. */
  preadv2: c<(fd: number, vector: number, count: number, offset: number, flags: number) => number>(
    'long preadv64v2(int, uintptr_t, int, int64_t, int)',
  ),
  lseek: c<(fd: number, offset: number, whence: number) => number>('int64_t lseek64(int, int64_t, int)'),
  /** Returns the errno itself, not -1. */
  fadvise: c<(fd: number, offset: number, sizeBytes: number, advice: number) => number>(
    'int posix_fadvise64(int, int64_t, int64_t, int)',
  ),
  recv: c<(fd: number, buffer: number, sizeBytes: number, flags: number) => number>(
    'long recv(int, uintptr_t, size_t, int)',
  ),
  /** openat2(2) has no wrapper in glibc 2.36. `how` is `struct open_how`: flags, mode, resolve as u64. */
  openat2: c<(number: number, dirFd: number, path: number, how: number, sizeBytes: number) => number>(
    'int syscall(long, int, uintptr_t, uintptr_t, size_t)',
  ),
  inotifyAddWatch: c<(fd: number, path: number, mask: number) => number>(
    'int inotify_add_watch(int, uintptr_t, uint32_t)',
  ),
  /** bpf(2); `attr` is a `union bpf_attr`. */
  bpf: c<(number: number, command: number, attr: number, sizeBytes: number) => number>(
    'int syscall(long, int, uintptr_t, unsigned int)',
  ),
  /** glibc 2.28. Fills a `struct statx` of 256 bytes. */
  statx: c<(dirFd: number, path: number, flags: number, mask: number, statx: number) => number>(
    'int statx(int, uintptr_t, int, unsigned int, uintptr_t)',
  ),
  /** glibc 2.30. Fills the buffer with `struct linux_dirent64`. */
  getdents64: c<(fd: number, buffer: number, sizeBytes: number) => number>(
    'long getdents64(int, uintptr_t, size_t)',
  ),
  readlinkat: c<(dirFd: number, path: number, buffer: number, sizeBytes: number) => number>(
    'long readlinkat(int, uintptr_t, uintptr_t, size_t)',
  ),
  flistxattr: c<(fd: number, buffer: number, sizeBytes: number) => number>(
    'long flistxattr(int, uintptr_t, size_t)',
  ),
  fgetxattr: c<(fd: number, name: number, value: number, sizeBytes: number) => number>(
    'long fgetxattr(int, uintptr_t, uintptr_t, size_t)',
  ),
  llistxattr: c<(path: number, buffer: number, sizeBytes: number) => number>(
    'long llistxattr(uintptr_t, uintptr_t, size_t)',
  ),
  lgetxattr: c<(path: number, name: number, value: number, sizeBytes: number) => number>(
    'long lgetxattr(uintptr_t, uintptr_t, uintptr_t, size_t)',
  ),
  lsetxattr: c<(path: number, name: number, value: number, sizeBytes: number, flags: number) => number>(
    'int lsetxattr(uintptr_t, uintptr_t, uintptr_t, size_t, int)',
  ),
  /** Fills a `struct statfs` of 120 bytes; its first i64 is the type. */
  fstatfs: c<(fd: number, statfs: number) => number>('int fstatfs(int, uintptr_t)'),
} as const;

/**
 * Calls that run on a thread of libuv's pool, because they may take the kernel long. The memory must not move, and it and the
 * descriptor must exist until the call is done. Why a call failed is unknown: {@link errno} is that of the calling thread.
 */
export const asideCalls = {
  send: aside<[fd: number, buffer: number, sizeBytes: number, flags: number]>(
    'long send(int, uintptr_t, size_t, int)',
  ),
  recv: aside<[fd: number, buffer: number, sizeBytes: number, flags: number]>(
    'long recv(int, uintptr_t, size_t, int)',
  ),
} as const;

function aside<A extends readonly number[]>(prototype: string): (...args: A) => Promise<number> {
  const call = clib.func(prototype);
  return (...args) =>
    new Promise((resolve, reject) => {
      call.async(...args, (error: Error | null, result: number) => {
        if (error === null) resolve(result);
        else reject(error);
      });
    });
}

/** errno of the last failed libc or libbpf call on this thread. */
export function errno(): number {
  return koffi.errno();
}

/**
 * Numbers of system calls that glibc, or an older version of it, does not wrap. Most are the same on x86_64 and arm64.
 */
export const syscallNumbers = {
  openat2: 437,
  pidfdOpen: 434,
  bpf: process.arch === 'arm64' ? 280 : 321,
  perfEventOpen: process.arch === 'arm64' ? 241 : 298,
  openTree: 428,
  moveMount: 429,
  fsopen: 430,
  fsconfig: 431,
  fsmount: 432,
  fspick: 433,
  lsmListModules: 461,
} as const;

const printPrototype = koffi.proto('int libbpf_print_fn(int level, const void *format, void *args)');

let loaded: Libbpf | undefined;

/**
 * libbpf.so.1, loaded at the first call. `RAMPART_LIBBPF` names another file, with which tests run against several
 * versions.
 *
 * @throws {RampartError} `UNSUPPORTED` when the library is not installed.
 */
export function libbpf(): Libbpf {
  if (loaded === undefined) {
    const lib = loadLibrary(process.env['RAMPART_LIBBPF'] || 'libbpf.so.1', 'libbpf1');
    loaded = declareLibbpf(<F>(prototype: string): F => lib.func(prototype) as F);
    loaded.setPrint(koffi.register(printToCapture, koffi.pointer(printPrototype)));
  }
  return loaded;
}

function declareLibnftables() {
  const lib = loadLibrary('libnftables.so.1', 'libnftables1');
  const f = <F>(prototype: string): F => lib.func(prototype) as F;
  return {
    ctxNew: f<(flags: number) => Pointer | null>('void *nft_ctx_new(uint32_t)'),
    ctxFree: f<(context: Pointer) => void>('void nft_ctx_free(void *)'),
    ctxBufferOutput: f<(context: Pointer) => number>('int nft_ctx_buffer_output(void *)'),
    ctxBufferError: f<(context: Pointer) => number>('int nft_ctx_buffer_error(void *)'),
    ctxOutput: f<(context: Pointer) => string | null>('const char *nft_ctx_get_output_buffer(void *)'),
    ctxError: f<(context: Pointer) => string | null>('const char *nft_ctx_get_error_buffer(void *)'),
    ctxOutputSetFlags: f<(context: Pointer, flags: number) => void>(
      'void nft_ctx_output_set_flags(void *, unsigned int)',
    ),
    runCmdFromFilename: f<(context: Pointer, path: string) => number>(
      'int nft_run_cmd_from_filename(void *, const char *)',
    ),
    runCmdFromBuffer: f<(context: Pointer, commands: string) => number>(
      'int nft_run_cmd_from_buffer(void *, const char *)',
    ),
  } as const;
}

/** libnftables' functions, with the names of its header in camel case. */
export type Libnftables = ReturnType<typeof declareLibnftables>;

let loadedNftables: Libnftables | undefined;

/** Loaded at the first call. @throws {RampartError} `UNSUPPORTED` when libnftables.so.1 is not installed. */
export function libnftables(): Libnftables {
  loadedNftables ??= declareLibnftables();
  return loadedNftables;
}

const LIBBPF_DEBUG = 2;
const lineBuffer = new Uint8Array(64 * 1024);
let capture: string[] | undefined;

/** libbpf's print callback (libbpf.h, libbpf_print_fn_t): adds the formatted line to the current capture. */
function printToCapture(level: number, format: Pointer | null, args: Pointer | null): number {
  if (capture === undefined || level >= LIBBPF_DEBUG || format === null || args === null) return 0;
  // A va_list is passed as a pointer on x86_64 (it is an array) and on arm64 (it is larger than 16 bytes).
  const length = libc.vsnprintf(lineBuffer, lineBuffer.byteLength, format, args);
  const shown = Math.min(Math.max(length, 0), lineBuffer.byteLength - 1);
  capture.push(Buffer.from(lineBuffer.buffer, 0, shown).toString('utf8').trimEnd());
  return length;
}

/** Runs `call`; returns its result and libbpf's log from info level on. Outside of such a call, libbpf's log is discarded. */
export function withLibbpfLog<T>(call: (lib: Libbpf) => T): { readonly result: T; readonly log: string } {
  const lib = libbpf();
  const outer = capture;
  const lines: string[] = [];
  capture = lines;
  try {
    const result = call(lib);
    return { result, log: lines.join('\n') };
  } finally {
    capture = outer;
  }
}

/** The memory at `address`, neither copied nor owned. Whoever unmaps it must first drop every view. */
export function viewMemory(address: Pointer, sizeBytes: number): ArrayBuffer {
  return koffi.view(address, sizeBytes);
}

/** The address of a buffer's bytes, for structures that hold pointers. Keep the buffer referenced. */
export function addressOf(buffer: Uint8Array): Pointer {
  return koffi.address(buffer);
}

/** A file descriptor watched by the event loop (uv_poll); dispose it before closing the descriptor. */
export interface Poll extends Disposable {
  /** `ref` and `unref` set whether the watch keeps the process alive, which it does at the start. */
  ref(): void;
  unref(): void;
}

/** Calls `onReadable` on the event loop whenever `fd` is readable (level-triggered), without a thread or a timer. */
export function pollReadable(fd: number, onReadable: () => void): Poll {
  const handle = koffi.node.poll(fd, { readable: true }, onReadable);
  let open = true;
  return {
    ref: () => handle.ref(),
    unref: () => handle.unref(),
    [Symbol.dispose]() {
      if (!open) return;
      open = false;
      handle.stop();
      handle.close();
    },
  };
}
