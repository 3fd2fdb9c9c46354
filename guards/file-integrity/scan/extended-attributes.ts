/**
 * A file's properties besides its stat: ACLs, SELinux label, extended attributes, capabilities. Usually one
 * call shows that it has no such properties. Facts: AIDE 0.18, src/do_md.c: which attributes it keeps, and
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
/** The attributes that {@link ExtendedAttributes.read} reads. */
export const extendedBits: AttributeSet = bits.acl | bits.selinux | bits.xattrs | bits.capabilities;

const names = {
  accessAcl: 'system.posix_acl_access',
  defaultAcl: 'system.posix_acl_default',
  selinux: 'security.selinux',
  capabilities: 'security.capability',
};
/** AIDE keeps these attributes; others belong to the file system. */
const keptPrefixes = ['user.', 'security.', 'trusted.'];

/** XATTR_LIST_MAX and XATTR_SIZE_MAX (include/uapi/linux/limits.h). */
const longest = 65_536;
const longestPath = 8192;
/**
 * Limit for all values of a file: a file system without a limit of its own (XFS, Btrfs, tmpfs) takes hundreds
 * of megabytes.
 */
const maxValueBytes = 1024 * 1024;
const { ENODATA, EOPNOTSUPP, ENOSYS, ENOENT, ENOTDIR, ELOOP, E2BIG } = constants.errno;
/** Errors of listing that say enough: there is no such thing here, or the name has become something else's meanwhile. */
const noList: ReadonlySet<number> = new Set([EOPNOTSUPP, ENOSYS, ENOENT, ENOTDIR, ELOOP]);

type Parts = Pick<Entry, 'acl' | 'defaultAcl' | 'selinux' | 'xattrs' | 'capabilities'>;
export type MutableParts = { -readonly [Field in keyof Parts]: Parts[Field] };

/** An open file, or a path to one. */
export interface Target {
  readonly fd: number;
  /** Where `fd` is -1. */
  readonly path: string;
}

export interface AboutFile {
  readonly mode: number;
  readonly isDirectory: boolean;
  readonly device: number;
}

export class ExtendedAttributes {
  /** Why attributes of the last file could not be read, though it may have some; otherwise 0. */
  errno = 0;
  readonly #path = new FixedBuffer(longestPath);
  readonly #name = new FixedBuffer(512);
  readonly #list = new FixedBuffer(longest);
  readonly #value = new FixedBuffer(longest);
  readonly #accounts = readAccountNames();
  readonly #knownCapabilities = capabilitiesOfKernel();
  /** With SELinux in the kernel a file has a label that its file system does not list. */
  readonly #hasSelinux = existsSync('/sys/fs/selinux/enforce');
  /** Without /proc, no path of a {@link Target} resolves, whatever the file. */
  readonly #hasProc = existsSync('/proc/self/fd');
  /** Keyed by device. */
  readonly #hasAcls = new Map<number, boolean>();

  /**
   * Reads the `asked` attributes into `parts`. Returns the unknown ones: if the file system does not support
   * them, or the file has no label or no capabilities, as AIDE does.
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
    // A user can give their own file more names than the kernel lists: the relevant ones are queried one by
    // one.
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

  /** Where they are too many to be kept: of each long one its sha512, so that a change is seen as well. */
  #kept(target: Target, found: readonly string[]): [ByteString, Uint8Array][] {
    let kept: [ByteString, Uint8Array][] = [];
    let bytes = 0;
    for (const name of found.toSorted()) {
      if (!keptPrefixes.some((prefix) => name.startsWith(prefix))) continue;
      const value = this.#valueOf(target, name);
      // An attribute that was removed meanwhile, or that this process may not read.
      if (typeof value === 'number') continue;
      bytes += value.length;
      const areMany = bytes > maxValueBytes;
      if (areMany && bytes - value.length <= maxValueBytes)
        kept = kept.map(([of, long]) => [of, inShort(long)]);
      kept.push([name, areMany ? inShort(value) : Uint8Array.from(value)]);
    }
    return kept;
  }

  /** The length of the list, or the errno as a negative number. */
  #listInto({ fd }: Target): number {
    const { address } = this.#list;
    const length =
      fd >= 0
        ? fileCalls.flistxattr(fd, address, longest)
        : fileCalls.llistxattr(this.#path.address, address, longest);
    return length >= 0 ? length : -errno();
  }

  /** Valid until the next call; or the errno as a negative number. */
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
