/**
 * Which system calls change files, and how: the tables that the programs of changes.bpf.c have in .rodata.
 *
 * They tell what a change without an inotify event was and, before kernel 6.13, whether an inode that becomes dirty was
 * changed at all. For the latter, sendfile and splice are left out: the file that they read from becomes dirty, too.
 *
 * Numbers: arch/x86/entry/syscalls/syscall_64.tbl and syscall_32.tbl, include/uapi/asm-generic/unistd.h (arm64),
 * arch/arm/tools/syscall.tbl (32-bit tasks on arm64).
 */
import { type Gate, type SyscallTables, tableOf, tablesOf } from '../syscalls.ts';
import { changeCalls, type ChangeCall } from './layout.ts';

type Table = Readonly<Record<Exclude<ChangeCall, 'unknown'>, readonly number[]>>;

/**
 * content: write and its variants, truncate, ftruncate, fallocate.
 * names: open, creat, openat, openat2, link, unlink, rename, mkdir, rmdir, symlink, mknod and their *at variants.
 * attributes: chmod, chown, utime and their variants, setxattr, removexattr, ioctl (chattr).
 */
const tables = {
  x64: {
    content: [1, 18, 20, 296, 328, 516, 535, 547, 76, 77, 285],
    names: [2, 82, 83, 84, 85, 86, 87, 88, 133, 257, 258, 259, 263, 264, 265, 266, 316, 437],
    attributes: [
      16, 90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280, 452, 463, 466, 514,
    ],
  },
  ia32: {
    content: [4, 181, 146, 334, 379, 92, 93, 193, 194, 324],
    names: [5, 8, 9, 10, 14, 38, 39, 40, 83, 295, 296, 297, 301, 302, 303, 304, 353, 437],
    attributes: [
      15, 16, 30, 54, 94, 95, 182, 198, 207, 212, 226, 227, 228, 235, 236, 237, 271, 298, 299, 306, 320, 412,
      452, 463, 466,
    ],
  },
  arm64: {
    content: [64, 66, 68, 70, 287, 45, 46, 47],
    names: [33, 34, 35, 36, 37, 38, 56, 276, 437],
    attributes: [5, 6, 7, 14, 15, 16, 29, 52, 53, 54, 55, 88, 452, 463, 466],
  },
  arm: {
    content: [4, 181, 146, 362, 393, 92, 93, 193, 194, 352],
    names: [5, 8, 9, 10, 14, 38, 39, 40, 83, 322, 323, 324, 328, 329, 330, 331, 382, 437],
    attributes: [
      15, 16, 54, 94, 95, 182, 198, 207, 212, 226, 227, 228, 235, 236, 237, 269, 325, 326, 333, 348, 412, 452,
      463, 466,
    ],
  },
} as const satisfies Record<Gate, Table>;

export const changeTable = (gate: Gate): Uint8Array => tableOf(tables[gate], changeCalls);

/** Like {@link tablesOf}. */
export const changeTablesOf = (architecture: string): SyscallTables => tablesOf(architecture, changeTable);
