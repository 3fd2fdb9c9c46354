/**
 * The columns of AIDE's databases (0.16 to 0.19): what a field says of an entry, and how an entry says it in a field.
 *
 * @module
 */
import { attributes, setOf } from '../attributes.ts';
import type { AttributeName, AttributeSet } from '../attributes.ts';
import { aideMaskOf, aideNameBit, setOfAideMask } from '../aide-mask.ts';
import { fileTypes } from '../entry.ts';
import type { Draft, Entry, FileType } from '../entry.ts';
import {
  decodeName,
  decodeOptionalName,
  decodeTime,
  encodeName,
  encodeOptionalName,
  encodeTime,
} from './aide-text.ts';

export interface AideColumn {
  readonly name: string;
  /** Sets what the field says. Returns false where it says nothing that can be understood. */
  read(field: string, draft: Draft): boolean;
  /** The field of an entry whose attributes ask for it. */
  write(entry: Entry): string;
  /** What an entry has to have for it to be written; AIDE has a 0 there for the others. */
  readonly neededFor: AttributeSet;
}

/** The types of `st_mode` (inode(7)), in the order of {@link fileTypes}. */
const typeBits = [0o10, 0o4, 0o12, 0o2, 0o6, 0o1, 0o14];
const typeOfBits = new Map(typeBits.map((bits, at) => [bits, fileTypes[at]]));
const typeShift = 0o10000;

export function modeOf(type: FileType, permissions: number): number {
  return (typeBits[fileTypes.indexOf(type)] ?? 0) * typeShift + permissions;
}

type NumberField = { [F in keyof Draft]: Draft[F] extends number ? F : never }[keyof Draft];

function always(names: readonly AttributeName[]): AttributeSet {
  return setOf(...names);
}

function number(name: string, field: NumberField, ...names: AttributeName[]): AideColumn {
  return {
    name,
    read(text, draft) {
      if (!/^\d{1,20}$/.test(text)) return false;
      draft[field] = Number(text);
      return true;
    },
    write: (entry) => String(entry[field as keyof Entry]),
    neededFor: always(names),
  };
}

function time(name: string, field: NumberField, attribute: AttributeName): AideColumn {
  return {
    name,
    read(text, draft) {
      const value = decodeTime(text);
      if (value === undefined) return false;
      draft[field] = value;
      return true;
    },
    write: (entry) => encodeTime(entry[field as keyof Entry] as number),
    neededFor: always([attribute]),
  };
}

function checksum(name: 'sha256' | 'sha512', sizeBytes: number): AideColumn {
  return {
    name,
    read(text, draft) {
      if (text === '0') return true;
      const value = Buffer.from(text, 'base64');
      if (value.length !== sizeBytes) return false;
      draft[name] = value;
      return true;
    },
    write: (entry) => (entry[name].length === 0 ? '0' : base64(entry[name])),
    neededFor: always([name]),
  };
}

/** A text in base64, `0` for none. AIDE ends it at its first NUL. */
function textColumn(name: string, field: 'selinux' | 'capabilities', attribute: AttributeName): AideColumn {
  return {
    name,
    read(encoded, draft) {
      draft[field] = encoded === '0' ? '' : textOf(encoded);
      return true;
    },
    write: (entry) => (entry[field] === '' ? '0' : base64(Buffer.from(entry[field], 'utf8'))),
    neededFor: always([attribute]),
  };
}

/** In the order in which AIDE writes them. */
export const aideColumns: readonly AideColumn[] = [
  {
    name: 'name',
    read(field, draft) {
      draft.path = decodeName(field);
      return draft.path.startsWith('/');
    },
    write: (entry) => encodeName(entry.path),
    neededFor: -1,
  },
  {
    name: 'lname',
    read(field, draft) {
      draft.linkTarget = decodeOptionalName(field) ?? '';
      return true;
    },
    write: (entry) => encodeOptionalName(entry.linkTarget),
    neededFor: setOf('l'),
  },
  {
    name: 'perm',
    read(field, draft) {
      if (!/^[0-7]{1,7}$/.test(field)) return false;
      const mode = Number.parseInt(field, 8);
      const type = typeOfBits.get(Math.floor(mode / typeShift));
      if (type === undefined) return mode === 0;
      draft.type = type;
      draft.permissions = mode % typeShift;
      return true;
    },
    // AIDE has the whole mode there, whatever was asked for: its type is the file's.
    write: (entry) => modeOf(entry.type, entry.permissions).toString(8),
    neededFor: -1,
  },
  number('uid', 'uid', 'u'),
  number('gid', 'gid', 'g'),
  number('size', 'sizeBytes', 's', 'S', 'growing'),
  time('atime', 'accessTimeS', 'a'),
  time('ctime', 'changeTimeS', 'c'),
  time('mtime', 'modifyTimeS', 'm'),
  {
    name: 'inode',
    read(field, draft) {
      // AIDE writes it as a signed number.
      if (!/^-?\d{1,20}$/.test(field)) return false;
      draft.inode = BigInt.asUintN(64, BigInt(field));
      return true;
    },
    write: (entry) => BigInt.asIntN(64, entry.inode).toString(),
    neededFor: -1,
  },
  number('bcount', 'blockCount', 'b'),
  number('lcount', 'linkCount', 'n'),
  {
    name: 'attr',
    read(field, draft) {
      const mask = Number(field);
      if (!/^\d{1,16}$/.test(field) || !Number.isSafeInteger(mask)) return false;
      draft.attributes = setOfAideMask(mask).set;
      return true;
    },
    write: (entry) => String(aideMaskOf(entry.attributes) + aideNameBit),
    neededFor: -1,
  },
  {
    name: 'acl',
    read(field, draft) {
      if (field === '0') return true;
      const [kind, access, preset, ...more] = field.split(',');
      if (kind !== 'POSIX' || access === undefined || preset === undefined || more.length > 0) return false;
      draft.acl = access === '0' ? '' : textOf(access);
      draft.defaultAcl = preset === '0' ? '' : textOf(preset);
      return true;
    },
    write({ acl, defaultAcl }) {
      if (acl === '' && defaultAcl === '') return '0';
      const part = (value: string): string => (value === '' ? '0' : base64(Buffer.from(value, 'utf8')));
      return `POSIX,${part(acl)},${part(defaultAcl)}`;
    },
    neededFor: setOf('acl'),
  },
  checksum('sha256', 32),
  checksum('sha512', 64),
  textColumn('selinux', 'selinux', 'selinux'),
  {
    name: 'xattrs',
    read(field, draft) {
      const [count = '', ...parts] = field.split(',');
      if (!/^\d{1,5}$/.test(count) || parts.length !== Number(count) * 2) return false;
      const xattrs: [string, Uint8Array][] = [];
      for (let at = 0; at < parts.length; at += 2) {
        const value = parts[at + 1] ?? '0';
        xattrs.push([
          decodeOptionalName(parts[at] ?? '') ?? '',
          Buffer.from(value === '0' ? '' : value, 'base64'),
        ]);
      }
      draft.xattrs = xattrs.toSorted(([a], [b]) => (a < b ? -1 : 1));
      return true;
    },
    write({ xattrs }) {
      if (xattrs.length === 0) return '0';
      const parts = xattrs.map(
        ([name, value]) =>
          `${encodeOptionalName(name).replaceAll(',', '%2C')},${value.length === 0 ? '0' : base64(value)}`,
      );
      return [String(xattrs.length), ...parts].join(',');
    },
    neededFor: setOf('xattrs'),
  },
  number('e2fsattrs', 'e2fsAttributes', 'e2fsattrs'),
  textColumn('capabilities', 'capabilities', 'caps'),
];

const byName = new Map(aideColumns.map((column) => [column.name, column]));

/** Undefined for one that is not known, or not read: the checksums that are refused. */
export function aideColumn(name: string): AideColumn | undefined {
  return byName.get(name);
}

/** What entries have where no column tells it: what the columns are for. */
export function attributesOfColumns(names: readonly string[]): AttributeSet {
  let set: AttributeSet = setOf('ftype');
  for (const { column, bit } of attributes) if (column !== '' && names.includes(column)) set |= bit;
  return set;
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

function textOf(encoded: string): string {
  const decoded = Buffer.from(encoded, 'base64').toString('utf8');
  const end = decoded.indexOf('\0');
  return end === -1 ? decoded : decoded.slice(0, end);
}
