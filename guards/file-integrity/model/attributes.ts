/** The attributes of a file that are compared: those of AIDE 0.18 and 0.19, as bits of a set. */

/** A set of attributes; one bit for each, see {@link attributes}. */
export type AttributeSet = number;

export interface Attribute {
  /** Name in aide.conf. */
  readonly name: string;
  readonly bit: AttributeSet;
  /** Number of its bit in the mask of AIDE's databases (AIDE, src/attributes.c). */
  readonly aideBit: number;
  /** The name of its column in AIDE's databases; empty if it has none. */
  readonly column: string;
  /** Name in AIDE's reports; empty for attributes that only control the comparison. */
  readonly label: string;
}

const named = [
  ['ftype', 35, '', 'File type'],
  ['l', 1, 'lname', 'Lname'],
  ['p', 2, 'perm', 'Perm'],
  ['u', 3, 'uid', 'Uid'],
  ['g', 4, 'gid', 'Gid'],
  ['s', 5, 'size', 'Size'],
  ['b', 10, 'bcount', 'Bcount'],
  ['a', 6, 'atime', 'Atime'],
  ['m', 8, 'mtime', 'Mtime'],
  ['c', 7, 'ctime', 'Ctime'],
  ['i', 9, 'inode', 'Inode'],
  ['n', 11, 'lcount', 'Linkcount'],
  ['acl', 21, 'acl', 'ACL'],
  ['selinux', 32, 'selinux', 'SELinux'],
  ['xattrs', 33, 'xattrs', 'XAttrs'],
  ['e2fsattrs', 36, 'e2fsattrs', 'E2FSAttrs'],
  ['caps', 37, 'capabilities', 'Caps'],
  ['sha256', 30, 'sha256', 'SHA256'],
  ['sha512', 31, 'sha512', 'SHA512'],
  // These control the comparison, and are not compared themselves.
  ['S', 26, '', 'Size (>)'],
  ['I', 27, '', ''],
  ['growing', 40, '', ''],
  ['compressed', 41, '', ''],
  ['ANF', 28, '', ''],
  ['ARF', 29, '', ''],
] as const;

export type AttributeName = (typeof named)[number][0];

/** In the order in which reports show them. */
export const attributes: readonly Attribute[] = named.map(([name, aideBit, column, label], at) => ({
  name,
  bit: 1 << at,
  aideBit,
  column,
  label,
}));

const byName = new Map(attributes.map((attribute) => [attribute.name, attribute]));

/** The attribute with this name in aide.conf; undefined for an unknown name. */
export function attributeNamed(name: string): Attribute | undefined {
  return byName.get(name);
}

export function setOf(...names: readonly AttributeName[]): AttributeSet {
  let set = 0;
  for (const name of names) set |= byName.get(name)?.bit ?? 0;
  return set;
}

/** The set as AIDE writes it, such as `p+u+g`; empty for an empty set. */
export function describeAttributes(set: AttributeSet): string {
  return attributes
    .filter(({ bit }) => (set & bit) !== 0)
    .map(({ name }) => name)
    .join('+');
}

/**
 * AIDE's checksums that FIPS 140-3 does not approve (NIST SP 800-140C). They are accepted in a configuration, but
 * sha256 is used instead, with a warning.
 */
export const refusedChecksums: ReadonlySet<string> = new Set([
  ...['md5', 'sha1', 'rmd160', 'tiger', 'crc32', 'crc32b', 'haval', 'gost', 'whirlpool'],
  ...['stribog256', 'stribog512'],
]);

/** Checksums of AIDE 0.19 that are approved but not calculated here: sha256 is used instead of them too. */
export const otherChecksums: ReadonlySet<string> = new Set(['sha512_256', 'sha3_256', 'sha3_512']);

/** The attributes that compare the content. */
export const checksums: AttributeSet = setOf('sha256', 'sha512');

/**
 * AIDE's predefined groups, without the attributes that are not supported here: `R` and `H` also have other checksums
 * (aide-conf/expression.ts).
 */
export const defaultGroups: Readonly<Record<'X' | 'L' | 'R' | '>' | 'H' | 'E', AttributeSet>> = (() => {
  const X = setOf('acl', 'selinux', 'xattrs', 'e2fsattrs', 'caps');
  const L = setOf('p', 'ftype', 'i', 'l', 'n', 'u', 'g') | X;
  return { X, L, R: L | setOf('s', 'm', 'c'), '>': L | setOf('s', 'growing'), H: checksums, E: 0 };
})();
