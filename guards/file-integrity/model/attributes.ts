/** The compared properties of a file: the attributes of AIDE 0.18 and 0.19, as a set of bits. */

/** A set of attributes; one bit for each, see {@link attributes}. */
export type AttributeSet = number;

export interface Attribute {
  /** As in aide.conf. */
  readonly name: string;
  readonly bit: AttributeSet;
  /** Its place in the numeric mask of AIDE's databases (AIDE, src/attributes.c). */
  readonly aideBit: number;
  /** The name of its column in AIDE's databases; empty if it has none. */
  readonly column: string;
  /** As in the reports of AIDE; empty for those that only say how to compare. */
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
  // How to compare, rather than what.
  ['S', 26, '', 'Size (>)'],
  ['I', 27, '', ''],
  ['growing', 40, '', ''],
  ['compressed', 41, '', ''],
  ['ANF', 28, '', ''],
  ['ARF', 29, '', ''],
] as const;

export type AttributeName = (typeof named)[number][0];

/** In the order of reports. */
export const attributes: readonly Attribute[] = named.map(([name, aideBit, column, label], at) => ({
  name,
  bit: 1 << at,
  aideBit,
  column,
  label,
}));

const byName = new Map(attributes.map((attribute) => [attribute.name, attribute]));

/** The attribute with this name in aide.conf. */
export function attributeNamed(name: string): Attribute | undefined {
  return byName.get(name);
}

export function setOf(...names: readonly AttributeName[]): AttributeSet {
  let set = 0;
  for (const name of names) set |= byName.get(name)?.bit ?? 0;
  return set;
}

/** As AIDE writes it: `p+u+g`; empty for none. */
export function describeAttributes(set: AttributeSet): string {
  return attributes
    .filter(({ bit }) => (set & bit) !== 0)
    .map(({ name }) => name)
    .join('+');
}

/**
 * Checksums of AIDE that FIPS 140-3 does not approve (NIST SP 800-140C). They are read, and sha256 is taken in their place,
 * with a warning.
 */
export const refusedChecksums: ReadonlySet<string> = new Set([
  ...['md5', 'sha1', 'rmd160', 'tiger', 'crc32', 'crc32b', 'haval', 'gost', 'whirlpool'],
  ...['stribog256', 'stribog512'],
]);

/** Approved, but not calculated here: sha256 is taken in their place too. Of AIDE 0.19. */
export const otherChecksums: ReadonlySet<string> = new Set(['sha512_256', 'sha3_256', 'sha3_512']);

/** The content, whatever the algorithm. */
export const checksums: AttributeSet = setOf('sha256', 'sha512');

/**
 * AIDE's predefined groups, as far as they consist of our attributes; `R` and `H` have checksums besides
 * (aide-conf/expression.ts).
 */
export const defaultGroups: Readonly<Record<'X' | 'L' | 'R' | '>' | 'H' | 'E', AttributeSet>> = (() => {
  const X = setOf('acl', 'selinux', 'xattrs', 'e2fsattrs', 'caps');
  const L = setOf('p', 'ftype', 'i', 'l', 'n', 'u', 'g') | X;
  return { X, L, R: L | setOf('s', 'm', 'c'), '>': L | setOf('s', 'growing'), H: checksums, E: 0 };
})();
