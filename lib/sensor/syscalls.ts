/**
 * Which system calls can touch a file, by their number: the tables behind the raw tracepoint mode.
 *
 * Numbers: arch/x86/entry/syscalls/syscall_64.tbl and syscall_32.tbl, include/uapi/asm-generic/unistd.h
 * (arm64), arch/arm/tools/syscall.tbl (32-bit tasks on arm64).
 */
import { errorCodes, RampartError } from '../errors/errors.ts';
import { syscallTableLength } from './layout.ts';

/** `enum syscall_kind` of bpf/sensor.h, in its order. */
export const syscallKinds = [
  'none',
  'open',
  'openat',
  'openat2',
  'read',
  'write',
  'sendfile',
  'copy',
  'mmap',
  'truncate',
  'unlink',
  'rename',
  'mode',
  'owner',
  'times',
  'extended',
] as const;
export type SyscallKind = Exclude<(typeof syscallKinds)[number], 'none'>;

type Table = Readonly<Record<SyscallKind, readonly number[]>>;

/**
 * read: read, pread64, readv, preadv, preadv2. write: the same variants of write, and ftruncate, fallocate.
 * mode: chmod and its variants; owner: chown; times: utime; extended: setxattr, removexattr.
 * openat: openat, open_by_handle_at. open: open, creat. copy: splice, copy_file_range.
 */
const tables = {
  // 515, 516, 534, 535, 546 and 547 are the vectored calls of the x32 gate.
  x64: {
    open: [2, 85],
    openat: [257, 304],
    openat2: [437],
    read: [0, 17, 19, 295, 327, 515, 534, 546],
    write: [1, 18, 20, 296, 328, 516, 535, 547, 77, 285],
    sendfile: [40],
    copy: [275, 326],
    mmap: [9],
    truncate: [76],
    unlink: [87, 263],
    rename: [82, 264, 316],
    mode: [90, 91, 268, 452],
    owner: [92, 93, 94, 260],
    times: [132, 235, 261, 280],
    extended: [188, 189, 190, 197, 198, 199, 463, 466],
  },
  // 192 is mmap2; the old mmap (90) takes its arguments in memory and is not followed.
  ia32: {
    open: [5, 8],
    openat: [295, 342],
    openat2: [437],
    read: [3, 180, 145, 333, 378],
    write: [4, 181, 146, 334, 379, 93, 194, 324],
    sendfile: [187, 239],
    copy: [313, 377],
    mmap: [192],
    truncate: [92, 193],
    unlink: [10, 301],
    rename: [38, 302, 353],
    mode: [15, 94, 306, 452],
    owner: [16, 95, 182, 198, 207, 212, 298],
    times: [30, 271, 299, 320, 412],
    extended: [226, 227, 228, 235, 236, 237, 463, 466],
  },
  arm64: {
    open: [],
    openat: [56, 265],
    openat2: [437],
    read: [63, 67, 65, 69, 286],
    write: [64, 68, 66, 70, 287, 46, 47],
    sendfile: [71],
    copy: [76, 285],
    mmap: [222],
    truncate: [45],
    unlink: [35],
    rename: [38, 276],
    mode: [52, 53, 452],
    owner: [54, 55],
    times: [88],
    extended: [5, 6, 7, 14, 15, 16, 463, 466],
  },
  arm: {
    open: [5, 8],
    openat: [322, 371],
    openat2: [437],
    read: [3, 180, 145, 361, 392],
    write: [4, 181, 146, 362, 393, 93, 194, 352],
    sendfile: [187, 239],
    copy: [340, 391],
    mmap: [192],
    truncate: [92, 193],
    unlink: [10, 328],
    rename: [38, 329, 382],
    mode: [15, 94, 333, 452],
    owner: [16, 95, 182, 198, 207, 212, 325],
    times: [269, 326, 348, 412],
    extended: [226, 227, 228, 235, 236, 237, 463, 466],
  },
} as const satisfies Record<Gate, Table>;

export const syscallTable = (gate: Gate): Uint8Array => tableOf(tables[gate], syscallKinds);

/** Like {@link tablesOf}. */
export const syscallTablesOf = (architecture: string): SyscallTables => tablesOf(architecture, syscallTable);

/** The interface through which system calls enter the kernel. */
export type Gate = 'arm' | 'arm64' | 'ia32' | 'x64';

/** One byte per system call number: the place of its kind in `kinds`, as the programs read it from .rodata. */
export function tableOf(
  numbersOf: Readonly<Record<string, readonly number[]>>,
  kinds: readonly string[],
): Uint8Array {
  const table = new Uint8Array(syscallTableLength);
  for (const [kind, numbers] of Object.entries(numbersOf)) {
    for (const number of numbers) table[number] = kinds.indexOf(kind);
  }
  return table;
}

export interface SyscallTables {
  readonly native: Uint8Array;
  readonly compat: Uint8Array;
}

/**
 * The tables of this machine: its own gate and the 32-bit one beside it.
 *
 * @throws {RampartError} `UNSUPPORTED` on any other architecture than x86_64 and arm64.
 */
export function tablesOf(architecture: string, table: (gate: Gate) => Uint8Array): SyscallTables {
  if (architecture === 'x64') return { native: table('x64'), compat: table('ia32') };
  if (architecture === 'arm64') return { native: table('arm64'), compat: table('arm') };
  throw new RampartError(errorCodes.UNSUPPORTED, {
    what: `no system call table for architecture ${architecture}`,
    next: 'x64 and arm64 are supported',
  });
}
