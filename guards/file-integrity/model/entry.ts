/** The state of a file at a certain time: baselines consist of entries, and current entries are compared with them. */
import type { AttributeSet } from './attributes.ts';

/** As in the file types of AIDE's rules: regular file, directory, symbolic link, character and block device, FIFO, socket. */
export const fileTypes = ['f', 'd', 'l', 'c', 'b', 'p', 's'] as const;
export type FileType = (typeof fileTypes)[number];

/**
 * A path or link target as bytes, with one character for each byte (latin1). So names that are not UTF-8 are preserved,
 * and a name takes one byte of memory for each of its bytes.
 */
export type ByteString = string;

/** Whether a path is `above`, which has no trailing slash, or below it. */
export function isAtOrBelow(path: ByteString, above: ByteString): boolean {
  return path.startsWith(above) && (path.length === above.length || path[above.length] === '/');
}

/** Whether a path is one of `others`, or below one of them. */
export function isAtOrBelowAny(
  path: ByteString,
  others: Pick<ReadonlySet<ByteString>, 'has' | 'size'>,
): boolean {
  if (others.size === 0) return false;
  for (let at = path; at !== '/' && at !== ''; at = at.slice(0, at.lastIndexOf('/')))
    if (others.has(at)) return true;
  return others.has('/');
}

/** Only the fields of `attributes` are meaningful; the others have their default (0, 0n, an empty text, no bytes). */
export interface Entry {
  /** Absolute, as seen from the scanned root: `/etc/passwd`. */
  readonly path: ByteString;
  readonly type: FileType;
  /** The requested attributes whose values are known. */
  readonly attributes: AttributeSet;
  /** Permissions including setuid, setgid and sticky bit: `st_mode & 0o7777`. */
  readonly permissions: number;
  readonly uid: number;
  readonly gid: number;
  readonly linkCount: number;
  readonly inode: bigint;
  readonly sizeBytes: number;
  /** Blocks of 512 bytes. */
  readonly blockCount: number;
  /** Whole seconds since 1970, as in AIDE. */
  readonly accessTimeS: number;
  readonly modifyTimeS: number;
  readonly changeTimeS: number;
  readonly linkTarget: ByteString;
  /**
   * ACL in the long text form of acl(5), without comments: `user::rwx\n...`; the default ACL of a directory is in
   * `defaultAcl`.
   */
  readonly acl: string;
  readonly defaultAcl: string;
  /** `system_u:object_r:etc_t:s0`; empty if the file has none. */
  readonly selinux: string;
  /**
   * Names and values, sorted by name, of `user.*`, `trusted.*` and `security.*`, as in AIDE. So SELinux label and
   * capabilities are included, while ACLs (`system.*`) are not.
   */
  readonly xattrs: readonly (readonly [name: ByteString, value: Uint8Array])[];
  /** The flags of chattr(1), as FS_IOC_GETFLAGS returns them. */
  readonly e2fsAttributes: number;
  /** As cap_to_text(3) writes them; empty if the file has none. */
  readonly capabilities: string;
  /** Empty unless this is a regular file. */
  readonly sha256: Uint8Array;
  readonly sha512: Uint8Array;
}

/** An entry whose fields are still being set. */
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

/** Code of a large file whose content was skipped: it is read after all other files. */
export const largeCode = 'LARGE';
/** A file with more bytes is large: reading it takes some seconds on a slow disk. */
export const defaultLargeBytes = 256 * 1024 * 1024;

/** A file or directory that could not be read completely. It is counted and reported, and never treated as removed. */
export interface ScanProblem {
  readonly path: ByteString;
  /** `EACCES`, `EIO`, ...; `CHANGED`: the file was changed while it was read, three times in a row; or {@link largeCode}. */
  readonly code: string;
  readonly message: string;
}
