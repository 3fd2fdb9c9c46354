/** A file as it was seen: part of a baseline, and compared with one. */
import type { AttributeSet } from './attributes.ts';

/**
 * As in AIDE's restrictions: regular file, directory, symbolic link, character and block device, FIFO, socket.
 */
export const fileTypes = ['f', 'd', 'l', 'c', 'b', 'p', 's'] as const;
export type FileType = (typeof fileTypes)[number];

/**
 * A path or a link's target as the kernel has it, which is bytes: one character a byte (latin1), so that names which are no
 * UTF-8 stay what they are, and a name takes one byte of memory for each of its own.
 */
export type ByteString = string;

/** Whether a path is `above`, which has no slash at its end, or in it. */
export function isAtOrBelow(path: ByteString, above: ByteString): boolean {
  return path.startsWith(above) && (path.length === above.length || path[above.length] === '/');
}

/** Whether a path is one of these, or in one of them. */
export function isAtOrBelowAny(
  path: ByteString,
  others: Pick<ReadonlySet<ByteString>, 'has' | 'size'>,
): boolean {
  if (others.size === 0) return false;
  for (let at = path; at !== '/' && at !== ''; at = at.slice(0, at.lastIndexOf('/')))
    if (others.has(at)) return true;
  return others.has('/');
}

/** Only what `attributes` asks for means anything; the rest has its default (0, 0n, an empty text, no bytes). */
export interface Entry {
  /** Absolute, from the root that was scanned: `/etc/passwd`. */
  readonly path: ByteString;
  readonly type: FileType;
  /** The requested attributes that are known. */
  readonly attributes: AttributeSet;
  /** Permissions with setuid, setgid and sticky: `st_mode & 0o7777`. */
  readonly permissions: number;
  readonly uid: number;
  readonly gid: number;
  readonly linkCount: number;
  readonly inode: bigint;
  readonly sizeBytes: number;
  /** Blocks of 512 bytes. */
  readonly blockCount: number;
  /** Whole seconds since 1970, as AIDE keeps them. */
  readonly accessTimeS: number;
  readonly modifyTimeS: number;
  readonly changeTimeS: number;
  readonly linkTarget: ByteString;
  /** acl(5) in its long text form, without a comment: `user::rwx\n...`; the default ACL of a directory apart. */
  readonly acl: string;
  readonly defaultAcl: string;
  /** `system_u:object_r:etc_t:s0`; empty if the file has none. */
  readonly selinux: string;
  /**
   * Name and value, sorted by name: `user.*`, `trusted.*` and `security.*`, as AIDE keeps them. So label and capabilities are
   * here too, and ACLs (`system.*`) are not.
   */
  readonly xattrs: readonly (readonly [name: ByteString, value: Uint8Array])[];
  /** The bits of chattr(1), FS_IOC_GETFLAGS. */
  readonly e2fsAttributes: number;
  /** As cap_to_text(3) writes them; empty for none. */
  readonly capabilities: string;
  /** Empty unless this is a regular file. */
  readonly sha256: Uint8Array;
  readonly sha512: Uint8Array;
}

/** An entry while its fields are read. */
export type Draft = { -readonly [Field in keyof Entry]: Entry[Field] };

export const emptyDraft: Draft = {
  ...{ path: '', type: 'f', attributes: 0, permissions: 0, uid: 0, gid: 0, linkCount: 0 },
  ...{
    inode: 0n,
    sizeBytes: 0,
    blockCount: 0,
    accessTimeS: 0,
    modifyTimeS: 0,
    changeTimeS: 0,
    linkTarget: '',
  },
  ...{ acl: '', defaultAcl: '', selinux: '', xattrs: [], e2fsAttributes: 0, capabilities: '' },
  ...{ sha256: new Uint8Array(0), sha512: new Uint8Array(0) },
};

/** The code of a file whose content was left out because it is large: it is read when all others have been. */
export const largeCode = 'LARGE';
/** With more content than this a file is large: it takes some seconds on a slow disk. */
export const defaultLargeBytes = 256 * 1024 * 1024;

/**
 * A file or directory that could not be read, or not completely. Counted and reported; never taken for a file
 * that is gone.
 */
export interface ScanProblem {
  readonly path: ByteString;
  /**
   * `EACCES`, `EIO`, ...; `CHANGED`: it was changed while it was being read, three times in a row; or {@link largeCode}.
   */
  readonly code: string;
  readonly message: string;
}
