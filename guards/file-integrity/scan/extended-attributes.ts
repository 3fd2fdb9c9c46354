/**
 * Reads the properties of a file that its stat does not have: ACLs, SELinux label, extended attributes, capabilities.
 * Usually a single call shows that it has none. Source: AIDE 0.18, src/do_md.c, for which attributes AIDE stores, and
 * when it considers them unknown.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { constants } from 'node:os';

import { errno, fileCalls } from '../../../lib/ebpf/ffi.ts';
import { FixedBuffer } from '../../../lib/ebpf/libc.ts';
import { type AttributeSet, setOf } from '../model/attributes.ts';
import type { ByteString, Entry } from '../model/entry.ts';
import { aclOfMode, aclText, readAccountNames } from './acl-text.ts';
import { capabilitiesOfKernel, capabilityText } from './capability-text.ts';

const bits = {
  acl: setOf('acl'),
  selinux: setOf('selinux'),
  xattrs: setOf('xattrs'),
  capabilities: setOf('caps'),
};
/** The set of attributes that {@link ExtendedAttributes.read} can read. */
export const extendedBits: AttributeSet = bits.acl | bits.selinux | bits.xattrs | bits.capabilities;

const names = {
  accessAcl: 'system.posix_acl_access',
  defaultAcl: 'system.posix_acl_default',
  selinux: 'security.selinux',
  capabilities: 'security.capability',
};
/** The extended attributes that AIDE stores; others belong to the file system. */
const keptPrefixes = ['user.', 'security.', 'trusted.'];

/** XATTR_LIST_MAX and XATTR_SIZE_MAX (include/uapi/linux/limits.h), which are equal. */
const longest = 65_536;
const longestPath = 8192;
/**
 * Limit of all values of a file together: file systems without a limit of their own (XFS, Btrfs, tmpfs) accept hundreds
 * of megabytes.
 */
const maxValueBytes = 1024 * 1024;
const { ENODATA, EOPNOTSUPP, ENOSYS, ENOENT, ENOTDIR, ELOOP, E2BIG } = constants.errno;
/**
 * Errors of listing that are no problem: the file system has no extended attributes, or the name was removed or
 * replaced meanwhile.
 */
const noList: ReadonlySet<number> = new Set([EOPNOTSUPP, ENOSYS, ENOENT, ENOTDIR, ELOOP]);

type Parts = Pick<Entry, 'acl' | 'defaultAcl' | 'selinux' | 'xattrs' | 'capabilities'>;
export type MutableParts = { -readonly [Field in keyof Parts]: Parts[Field] };

/** An open file, or a path to one. */
export interface Target {
  readonly fd: number;
  /** Used if `fd` is -1. */
  readonly path: string;
}

export interface AboutFile {
  readonly mode: number;
  readonly isDirectory: boolean;
  readonly device: number;
}

export class ExtendedAttributes {
  /** Why attributes of the last file could not be read although it may have some; 0 if there was no error. */
  errno = 0;
  readonly #path = new FixedBuffer(longestPath);
  readonly #name = new FixedBuffer(512);
  readonly #list = new FixedBuffer(longest);
  readonly #value = new FixedBuffer(longest);
  readonly #accounts = readAccountNames();
  readonly #knownCapabilities = capabilitiesOfKernel();
  /** With SELinux in the kernel, a file has a label even if its file system does not list it. */
  readonly #hasSelinux = existsSync('/sys/fs/selinux/enforce');
  /** Without /proc, no {@link Target} can be opened by its path. */
  readonly #hasProc = existsSync('/proc/self/fd');
  /** Whether the file system supports ACLs, keyed by device. */
  readonly #hasAcls = new Map<number, boolean>();

  /**
   * Reads the `asked` attributes into `parts`. Returns those that remain unknown. As in AIDE, these are the ones that
   * the file system does not support, and label and capabilities if the file has none.
   */
  read(target: Target, about: AboutFile, asked: AttributeSet, parts: MutableParts): AttributeSet {
    parts.acl = parts.defaultAcl = parts.selinux = parts.capabilities = '';
    parts.xattrs = [];
    this.errno = 0;
    if (target.fd < 0) this.#path.writeText(target.path);
    const listed = this.#listInto(target);
    let missing = 0;
    if (listed === 0) {
      // The file has no extended attributes.
      if ((asked & bits.acl) !== 0) {
        if (this.#supportsAcls(target, about.device)) parts.acl = aclOfMode(about.mode);
        else missing |= bits.acl;
      }
      missing |= asked & bits.capabilities;
      if ((asked & bits.selinux) !== 0)
        missing |= this.#hasSelinux ? this.#label(target, parts) : bits.selinux;
      return missing;
    }
    if (listed < 0) {
      const isBlind = target.fd < 0 && !this.#hasProc;
      if (noList.has(-listed) && !isBlind) return asked & extendedBits;
      if ((asked & bits.xattrs) !== 0 || listed !== -E2BIG) this.errno = -listed;
      if (listed !== -E2BIG) return asked & extendedBits;
    }
    // Users can give their files more names than the kernel can list: then the relevant names are queried one by one.
    const found =
      listed > 0
        ? this.#list.bytes.toString('latin1', 0, listed - 1).split('\0')
        : Object.values(names).filter((name) => this.#valueOf(target, name) !== -ENODATA);
    if ((asked & bits.acl) !== 0) missing |= this.#acls(target, about, found, parts);
    if ((asked & bits.selinux) !== 0)
      missing |=
        this.#hasSelinux || found.includes(names.selinux) ? this.#label(target, parts) : bits.selinux;
    if ((asked & bits.capabilities) !== 0) missing |= this.#capabilities(target, found, parts);
    if ((asked & bits.xattrs) !== 0) {
      if (listed > 0) parts.xattrs = this.#kept(target, found);
      else missing |= bits.xattrs;
    }
    return missing;
  }

  #acls(target: Target, about: AboutFile, found: readonly string[], parts: MutableParts): AttributeSet {
    if (found.includes(names.accessAcl)) {
      const value = this.#valueOf(target, names.accessAcl);
      const text = typeof value === 'number' ? undefined : aclText(value, this.#accounts);
      if (text === undefined) return bits.acl;
      parts.acl = text;
    } else if (this.#supportsAcls(target, about.device)) parts.acl = aclOfMode(about.mode);
    else return bits.acl;
    if (!about.isDirectory || !found.includes(names.defaultAcl)) return 0;
    const value = this.#valueOf(target, names.defaultAcl);
    const text = typeof value === 'number' ? undefined : aclText(value, this.#accounts);
    if (text === undefined) return bits.acl;
    parts.defaultAcl = text;
    return 0;
  }

  #supportsAcls(target: Target, device: number): boolean {
    let known = this.#hasAcls.get(device);
    if (known === undefined) {
      const value = this.#valueOf(target, names.accessAcl);
      known = typeof value !== 'number' || value === -ENODATA;
      this.#hasAcls.set(device, known);
    }
    return known;
  }

  #label(target: Target, parts: MutableParts): AttributeSet {
    const value = this.#valueOf(target, names.selinux);
    if (typeof value === 'number' || value.length === 0) return bits.selinux;
    const end = value.indexOf(0);
    parts.selinux = value.toString('utf8', 0, end < 0 ? value.length : end);
    return 0;
  }

  #capabilities(target: Target, found: readonly string[], parts: MutableParts): AttributeSet {
    if (!found.includes(names.capabilities)) return bits.capabilities;
    const value = this.#valueOf(target, names.capabilities);
    const text = typeof value === 'number' ? undefined : capabilityText(value, this.#knownCapabilities);
    if (text === undefined) return bits.capabilities;
    parts.capabilities = text;
    return 0;
  }

  /**
   * The extended attributes to store. If they are too large in total, long values are replaced by their sha512, so that
   * changes are still noticed.
   */
  #kept(target: Target, found: readonly string[]): [ByteString, Uint8Array][] {
    let kept: [ByteString, Uint8Array][] = [];
    let bytes = 0;
    for (const name of found.toSorted()) {
      if (!keptPrefixes.some((prefix) => name.startsWith(prefix))) continue;
      const value = this.#valueOf(target, name);
      // The attribute was removed meanwhile, or this process may not read it.
      if (typeof value === 'number') continue;
      bytes += value.length;
      const areMany = bytes > maxValueBytes;
      if (areMany && bytes - value.length <= maxValueBytes)
        kept = kept.map(([of, long]) => [of, inShort(long)]);
      kept.push([name, areMany ? inShort(value) : Uint8Array.from(value)]);
    }
    return kept;
  }

  /** Lists the names into `#list`. Returns the length of the list, or the errno as a negative number. */
  #listInto({ fd }: Target): number {
    const { address } = this.#list;
    const length =
      fd >= 0
        ? fileCalls.flistxattr(fd, address, longest)
        : fileCalls.llistxattr(this.#path.address, address, longest);
    return length >= 0 ? length : -errno();
  }

  /** The value of an attribute, valid until the next call; or the errno as a negative number. */
  #valueOf({ fd }: Target, name: string): Buffer | number {
    this.#name.writeText(name);
    const { address, bytes } = this.#value;
    const length =
      fd >= 0
        ? fileCalls.fgetxattr(fd, this.#name.address, address, longest)
        : fileCalls.lgetxattr(this.#path.address, this.#name.address, address, longest);
    return length >= 0 ? bytes.subarray(0, length) : -errno();
  }
}

function inShort(value: Uint8Array): Uint8Array {
  const text = (): Uint8Array => Buffer.from(`sha512:${createHash('sha512').update(value).digest('base64')}`);
  return value.length <= 128 ? Uint8Array.from(value) : text();
}
