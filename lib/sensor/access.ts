/** The vocabulary of the sensor: what an access is, and which accesses a target wants. */
import { errorCodes, RampartError } from '../errors/errors.ts';

/** Bits of the kernel's access mask (include/linux/fs.h, MAY_*). */
export const may = {
  EXEC: 1,
  WRITE: 2,
  READ: 4,
  APPEND: 8,
  /** access(2) and similar calls: they check a permission, and access nothing. */
  ACCESS: 16,
  OPEN: 32,
  CHDIR: 64,
  NOT_BLOCK: 128,
} as const;

/**
 * Operations for which the kernel checks no permission of the file itself. In a mask they may stand next to the bits of
 * {@link may}: `enum operation_bits` of bpf/sensor.h.
 */
export const operationBits = { delete: 0x100, rename: 0x200, replace: 0x400, attributes: 0x800 } as const;
export type OperationWord = keyof typeof operationBits;
export const ANY_OPERATION = 0xf00;

/** The attributes that an operation changed, in the mask of an `attributes` operation; `extended` are those of setxattr(2). */
export const attributeBits = { mode: 0x1000, owner: 0x2000, times: 0x4000, extended: 0x8000 } as const;
export type AttributeWord = keyof typeof attributeBits;

/** The bits of a mask that the kernel defines, without the sensor's own. */
export const kernelBits = (mask: number): number => (mask & ~0xff00) >>> 0;

/** The operation, for a mask that is not an access: 0x200 -> 'rename'. */
export function operationOf(mask: number): OperationWord | undefined {
  if ((mask & ANY_OPERATION) === 0) return undefined;
  return operationWords.find((word) => mask & operationBits[word]);
}

const operationWords = Object.keys(operationBits) as readonly OperationWord[];

/** Which attributes an operation set. */
export function attributesOf(mask: number): readonly AttributeWord[] {
  return attributeWords.filter((word) => mask & attributeBits[word]);
}

const attributeWords = Object.keys(attributeBits) as readonly AttributeWord[];

/**
 * The words a user filters by. A question about permissions (`MAY_ACCESS`) is a `check`, never a
 * read or a write; an open that asks for neither reading, writing nor executing is an `open`.
 */
export const accessWords = [
  'read',
  'write',
  'execute',
  'append',
  'check',
  'open',
  'delete',
  'rename',
  'replace',
  'attributes',
] as const;
export type AccessWord = (typeof accessWords)[number];

const filterBits: Readonly<Record<AccessWord, number>> = {
  read: may.READ,
  write: may.WRITE,
  execute: may.EXEC,
  append: may.APPEND,
  check: may.ACCESS,
  open: may.OPEN,
  ...operationBits,
};

/** The filter that lets every access through. */
export const everyAccess: number = Object.values(filterBits).reduce((all, bit) => all | bit, 0);

/**
 * The filter for a list of words, as stored with a target in the kernel.
 *
 * @throws {RampartError} `INPUT` for a word that is not one of {@link accessWords}, or for no word.
 */
export function accessFilter(words: readonly string[]): number {
  let filter = 0;
  for (const word of words) {
    const bit = filterBits[word as AccessWord];
    if (bit === undefined || !Object.hasOwn(filterBits, word)) {
      throw new RampartError(errorCodes.INPUT, {
        what: `"${word}" is not an access`,
        next: `Use any of: ${accessWords.join(', ')}`,
      });
    }
    filter |= bit;
  }
  if (filter === 0) {
    throw new RampartError(errorCodes.INPUT, {
      what: 'no access is named',
      next: `Use any of: ${accessWords.join(', ')}`,
    });
  }
  return filter;
}

/** The words of a filter. */
export function wordsOfFilter(filter: number): readonly AccessWord[] {
  return accessWords.filter((word) => filter & filterBits[word]);
}

/** The words for a mask, in the order of {@link accessWords}: 36 -> ['read'], 42 -> ['write', 'append']. */
export function describeMask(mask: number): readonly AccessWord[] {
  if (mask & ANY_OPERATION) return operationWords.filter((word) => mask & operationBits[word]);
  if (mask & may.ACCESS) return ['check'];
  const words = accessWords.filter((word) => word !== 'open' && word !== 'check' && mask & filterBits[word]);
  return words.length > 0 ? words : ['open'];
}

/** Whether the kernel allowed the access; `unknown` if the mode cannot see it. */
export type Verdict = 'allowed' | 'denied' | 'unknown';

/** The kernel's identity of a file: its inode number on its superblock's device. */
export interface FileIdentity {
  /** `inode.i_ino`. */
  readonly inode: bigint;
  /** `super_block.s_dev`: major << 20 | minor. */
  readonly device: number;
  /**
   * `inode.i_generation` (of the upper inode on overlay): distinguishes a recycled inode number; 0 = unknown.
   */
  readonly generation: number;
}

export function sameFile(a: FileIdentity, b: FileIdentity): boolean {
  return a.inode === b.inode && a.device === b.device && a.generation === b.generation;
}

export function fileKey({ inode, device, generation }: FileIdentity): string {
  return `${inode}:${device}:${generation}`;
}

/** One access, as the kernel saw it. All process facts are of the moment of the access. */
export interface Access {
  /** Wall clock, nanoseconds since 1970. */
  readonly timeNs: bigint;
  readonly inode: bigint;
  readonly device: number;
  /** MAY_* bits, see {@link may}, or an operation, see {@link operationBits}. */
  readonly mask: number;
  /** For `delete`, `rename` and `replace`: the previous path, as the process sees it; empty if unknown. */
  readonly from: string;
  /** For `rename`: the new path. */
  readonly to: string;
  /** `from` and `to` begin at the root of their file system: the mount is not known. */
  readonly namesOfFileSystem: boolean;
  readonly verdict: Verdict;
  /** Accesses of this process to this target that were folded by the rate limit since its last record. */
  readonly folded: number;
  /** Thread ID, in the initial PID namespace. */
  readonly tid: number;
  /** Process ID (thread group), in the initial PID namespace. */
  readonly pid: number;
  readonly ppid: number;
  readonly uid: number;
  readonly gid: number;
  readonly comm: string;
  /** Full path of the executable as its process sees it. */
  readonly executable: string;
  readonly executableTruncated: boolean;
  /** The file that is executed, whatever names it has in any mount namespace; undefined for kernel threads. */
  readonly executableFile?: FileIdentity | undefined;
  readonly cwd: string;
  readonly cwdTruncated: boolean;
  /** argv[1..], joined by one space. */
  readonly arguments: string;
  readonly argumentsTruncated: boolean;
  /** Id of the cgroup (v2 hierarchy), as in bpf_get_current_cgroup_id. */
  readonly cgroupId: bigint;
  /**
   * The path of the cgroup that identifies a container or unit, from the root of its hierarchy:
   * `/system.slice/x.service`; empty if it has too many parts.
   */
  readonly cgroup: string;
  /** Inode numbers of the namespaces, as `readlink /proc/PID/ns/pid` shows them. */
  readonly pidNamespace: number;
  readonly mountNamespace: number;
}
