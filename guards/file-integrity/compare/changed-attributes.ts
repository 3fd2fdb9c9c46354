/** Compares two states of a file, by the rules of AIDE 0.18 (aide.conf(5); AIDE, src/gen_list.c). */
import { type AttributeSet, setOf } from '../model/attributes.ts';
import type { Entry } from '../model/entry.ts';
import { has } from '../database/entry-codec.ts';

const bits = {
  ...has,
  ftype: setOf('ftype'),
  size: setOf('s'),
  shrunk: setOf('S'),
  inode: setOf('i'),
  growing: setOf('growing'),
};

/**
 * The attributes that both entries have and that differ. If the old entry has the attribute `growing`, a larger size is
 * no difference; its checksums are compared as usual.
 */
export function changedAttributes(old: Entry, now: Entry): AttributeSet {
  const both = old.attributes & now.attributes;
  const grows = (old.attributes & bits.growing) !== 0;
  let changed = 0;
  // AIDE's attribute for permissions is the whole mode, including the type.
  const retyped = old.type !== now.type;
  if (retyped) changed |= bits.ftype | bits.permissions;
  if (old.permissions !== now.permissions) changed |= bits.permissions;
  if (old.linkTarget !== now.linkTarget) changed |= bits.linkTarget;
  if (old.uid !== now.uid) changed |= bits.uid;
  if (old.gid !== now.gid) changed |= bits.gid;
  if (old.linkCount !== now.linkCount) changed |= bits.linkCount;
  if (old.inode !== now.inode) changed |= bits.inode;
  if (old.sizeBytes > now.sizeBytes) changed |= bits.size | bits.shrunk;
  if (old.sizeBytes < now.sizeBytes && !grows) changed |= bits.size;
  if (differs(old.blockCount, now.blockCount, grows)) changed |= bits.blockCount;
  if (differs(old.accessTimeS, now.accessTimeS, grows)) changed |= bits.accessTime;
  if (differs(old.modifyTimeS, now.modifyTimeS, grows)) changed |= bits.modifyTime;
  if (differs(old.changeTimeS, now.changeTimeS, grows)) changed |= bits.changeTime;
  if (old.acl !== now.acl || old.defaultAcl !== now.defaultAcl) changed |= bits.acl;
  if (old.selinux !== now.selinux) changed |= bits.selinux;
  if (old.e2fsAttributes !== now.e2fsAttributes) changed |= bits.e2fsAttributes;
  if (old.capabilities !== now.capabilities) changed |= bits.capabilities;
  if ((both & bits.sha256) !== 0 && !sameBytes(old.sha256, now.sha256)) changed |= bits.sha256;
  if ((both & bits.sha512) !== 0 && !sameBytes(old.sha512, now.sha512)) changed |= bits.sha512;
  if ((both & bits.xattrs) !== 0 && !sameXattrs(old.xattrs, now.xattrs)) changed |= bits.xattrs;
  return changed & both;
}

export function sameBytes(one: Uint8Array, other: Uint8Array): boolean {
  if (one.length !== other.length) return false;
  for (let at = 0; at < one.length; at++) if (one[at] !== other[at]) return false;
  return true;
}

function differs(old: number, now: number, grows: boolean): boolean {
  return grows ? old > now : old !== now;
}

function sameXattrs(one: Entry['xattrs'], other: Entry['xattrs']): boolean {
  return (
    one.length === other.length &&
    one.every(([name, value], at) => {
      const its = other[at];
      return its !== undefined && its[0] === name && sameBytes(its[1], value);
    })
  );
}
