/**
 * The attributes of an entry in reports: in the order of AIDE's reports, with its names, letters and values
 * (aide.conf(5), report_summarize_changes; AIDE, src/report.c).
 */
import {
  type AttributeName,
  attributeNamed,
  attributes,
  type AttributeSet,
  setOf,
} from '../model/attributes.ts';
import type { ByteString, Entry, FileType } from '../model/entry.ts';
import { describeE2fs } from '../model/e2fs-attributes.ts';
import { bytesOf } from '../model/bytes.ts';

export interface ValueOptions {
  /** Checksums in hexadecimal rather than base64. */
  readonly base16: boolean;
  readonly ignoredE2fs: number;
}

export interface Field {
  readonly bit: AttributeSet;
  /** Name in a plain report. */
  readonly label: string;
  /** Name in a JSON report. */
  readonly name: string;
  /** Whether JSON has its values as numbers. */
  readonly numeric: boolean;
  /** The values, one for each line and not yet escaped for printing; empty for an ACL that the file does not have. */
  values(entry: Entry, options: ValueOptions): readonly ByteString[];
}

export const typeNames: Readonly<Record<FileType, string>> = {
  f: 'File',
  d: 'Directory',
  l: 'Link',
  c: 'Character device',
  b: 'Block device',
  p: 'FIFO',
  s: 'Socket',
};

function field(
  attribute: AttributeName,
  name: string,
  values: Field['values'] | ((entry: Entry, options: ValueOptions) => string),
  numeric = false,
): Field {
  const found = attributeNamed(attribute);
  if (found === undefined) throw new Error(`no attribute ${attribute}`);
  return {
    bit: found.bit,
    label: found.label,
    name,
    numeric,
    values(entry, options) {
      const result = values(entry, options);
      return typeof result === 'string' ? [result] : result;
    },
  };
}

/** In the order in which details are reported. */
export const fields: readonly Field[] = [
  field('ftype', 'file_type', ({ type }) => typeNames[type]),
  field('l', 'link_name', ({ linkTarget }) => linkTarget),
  field('s', 'size', ({ sizeBytes }) => String(sizeBytes), true),
  field('S', 'growing_size', ({ sizeBytes }) => String(sizeBytes), true),
  field('b', 'block_count', ({ blockCount }) => String(blockCount), true),
  field('p', 'perm', ({ type, permissions }) => describeMode(type, permissions)),
  field('u', 'uid', ({ uid }) => String(uid), true),
  field('g', 'gid', ({ gid }) => String(gid), true),
  field('a', 'access_time', ({ accessTimeS }) => describeTime(accessTimeS)),
  field('m', 'modify_time', ({ modifyTimeS }) => describeTime(modifyTimeS)),
  field('c', 'change_time', ({ changeTimeS }) => describeTime(changeTimeS)),
  field('i', 'inode', ({ inode }) => String(inode), true),
  field('n', 'link_count', ({ linkCount }) => String(linkCount), true),
  field('sha256', 'sha256', ({ sha256 }, { base16 }) => describeChecksum(sha256, base16)),
  field('sha512', 'sha512', ({ sha512 }, { base16 }) => describeChecksum(sha512, base16)),
  field('acl', 'acl', ({ acl, defaultAcl }) => [...describeAcl('A', acl), ...describeAcl('D', defaultAcl)]),
  field('xattrs', 'xattrs', ({ xattrs }) => describeXattrs(xattrs)),
  field('selinux', 'selinux', ({ selinux }) => bytesOf(selinux)),
  field('e2fsattrs', 'e2fsattrs', ({ e2fsAttributes }, { ignoredE2fs }) =>
    describeE2fs(e2fsAttributes, ignoredE2fs),
  ),
  field('caps', 'capabilities', ({ capabilities }) => bytesOf(capabilities)),
];

/** The columns of a changed file's summary after its type: the letter, and the attributes that it stands for. */
export const summaryColumns: readonly (readonly [letter: string, set: AttributeSet])[] = [
  ['l', setOf('l')],
  ['>', setOf('s', 'S')],
  ['b', setOf('b')],
  ['p', setOf('p')],
  ['u', setOf('u')],
  ['g', setOf('g')],
  ['a', setOf('a')],
  ['m', setOf('m')],
  ['c', setOf('c')],
  ['i', setOf('i')],
  ['n', setOf('n')],
  ['H', setOf('sha256', 'sha512')],
  ['A', setOf('acl')],
  ['X', setOf('xattrs')],
  ['S', setOf('selinux')],
  ['E', setOf('e2fsattrs')],
  ['C', setOf('caps')],
];

/** The attributes in AIDE's order, such as `p+sha512`. */
export function attributeExpression(set: AttributeSet): string {
  return inAideOrder
    .filter(({ bit }) => (set & bit) !== 0)
    .map(({ name }) => name)
    .join('+');
}

/** The attributes that only one of the two sets has, such as `+acl-sha256`. */
export function attributeDifference(old: AttributeSet, now: AttributeSet): string {
  return inAideOrder
    .filter(({ bit }) => ((old ^ now) & bit) !== 0)
    .map(({ name, bit }) => `${now & bit ? '+' : '-'}${name}`)
    .join('');
}

const inAideOrder = attributes.toSorted((a, b) => a.aideBit - b.aideBit);

/** The time in UTC, such as `2026-01-31 23:59:59 +0000`. */
export function describeTime(timeS: number): string {
  const date = new Date(timeS * 1000);
  if (Number.isNaN(date.getTime())) return `${timeS} s since 1970`;
  return date.toISOString().replace('T', ' ').replace(/\..*/, ' +0000');
}

/** As in ls(1), except that AIDE shows `l` for a setgid file that is not executable by its group. */
function describeMode(type: FileType, permissions: number): string {
  const letters = [type === 'f' ? '-' : type];
  for (let at = 0; at < 9; at++) letters.push(permissions & (0o400 >> at) ? 'rwx'.charAt(at % 3) : '-');
  const special = (bit: number, at: number, executable: string, not: string): void => {
    if ((permissions & bit) !== 0) letters[at] = letters[at] === 'x' ? executable : not;
  };
  special(0o4000, 3, 's', 'S');
  special(0o2000, 6, 's', 'l');
  special(0o1000, 9, 't', 'T');
  return letters.join('');
}

function describeChecksum(bytes: Uint8Array, base16: boolean): string {
  return Buffer.from(bytes).toString(base16 ? 'hex' : 'base64');
}

function describeAcl(which: string, acl: string): string[] {
  const lines = acl.split('\n');
  return lines.filter((line) => line !== '').map((line) => `${which}: ${bytesOf(line)}`);
}

function describeXattrs(xattrs: Entry['xattrs']): string[] {
  const digits = Math.floor(Math.log10(Math.max(1, xattrs.length)));
  return [
    `num=${xattrs.length}`,
    ...xattrs.map(
      ([name, value], at) => `[${String(at + 1).padStart(digits, '0')}] ${name} ${describeValue(value)}`,
    ),
  ];
}

/** Printable text is shown unchanged; a value with a blank is shown in base64, as in AIDE. */
function describeValue(value: Uint8Array): string {
  const text = Buffer.from(value).toString('latin1');
  if (/^[0-9a-zA-Z.\-_:;,[\]{}<>()!@#$%^&*|\\/?~]*\0?$/.test(text)) return `= ${text.replace('\0', '')}`;
  return `<=> ${Buffer.from(value).toString('base64')}`;
}
