/** The columns of AIDE's databases (0.16 to 0.19), and how to read their fields. */
import { attributes, type AttributeSet, setOf } from '../model/attributes.ts';
import { setOfAideMask } from '../model/aide-mask.ts';
import { type Draft, fileTypes } from '../model/entry.ts';
import { decodeName, decodeOptionalName, decodeTime } from './aide-text.ts';

/** Stores a field's value in the draft of an entry. Returns false if the field is invalid. */
type ReadAideField = (field: string, draft: Draft) => boolean;

/** The types of `st_mode` (inode(7)), in the order of {@link fileTypes}. */
export const typeBits = [0o10, 0o4, 0o12, 0o2, 0o6, 0o1, 0o14];
const typeOfBits = new Map(typeBits.map((bits, at) => [bits, fileTypes[at]]));
export const typeShift = 0o10000;

type NumberField = { [F in keyof Draft]: Draft[F] extends number ? F : never }[keyof Draft];

function number(field: NumberField): ReadAideField {
  return (text, draft) => {
    if (!/^\d{1,20}$/.test(text)) return false;
    draft[field] = Number(text);
    return true;
  };
}

function time(field: NumberField): ReadAideField {
  return (text, draft) => {
    const value = decodeTime(text);
    if (value === undefined) return false;
    draft[field] = value;
    return true;
  };
}

function checksum(name: 'sha256' | 'sha512', sizeBytes: number): ReadAideField {
  return (text, draft) => {
    if (text === '0') return true;
    const value = Buffer.from(text, 'base64');
    if (value.length !== sizeBytes) return false;
    draft[name] = value;
    return true;
  };
}

/** A text in base64; `0` if it is absent. AIDE ends the text at its first NUL. */
function textColumn(name: 'selinux' | 'capabilities'): ReadAideField {
  return (encoded, draft) => {
    draft[name] = encoded === '0' ? '' : textOf(encoded);
    return true;
  };
}

const columns: Readonly<Record<string, ReadAideField>> = {
  name: (field, draft) => {
    draft.path = decodeName(field);
    return draft.path.startsWith('/');
  },
  lname: (field, draft) => {
    draft.linkTarget = decodeOptionalName(field) ?? '';
    return true;
  },
  perm: (field, draft) => {
    if (!/^[0-7]{1,7}$/.test(field)) return false;
    const mode = Number.parseInt(field, 8);
    const type = typeOfBits.get(Math.floor(mode / typeShift));
    if (type === undefined) return mode === 0;
    draft.type = type;
    draft.permissions = mode % typeShift;
    return true;
  },
  uid: number('uid'),
  gid: number('gid'),
  size: number('sizeBytes'),
  atime: time('accessTimeS'),
  ctime: time('changeTimeS'),
  mtime: time('modifyTimeS'),
  inode: (field, draft) => {
    // AIDE writes it as a signed number.
    if (!/^-?\d{1,20}$/.test(field)) return false;
    draft.inode = BigInt.asUintN(64, BigInt(field));
    return true;
  },
  bcount: number('blockCount'),
  lcount: number('linkCount'),
  attr: (field, draft) => {
    const mask = Number(field);
    if (!/^\d{1,16}$/.test(field) || !Number.isSafeInteger(mask)) return false;
    draft.attributes = setOfAideMask(mask).set;
    return true;
  },
  acl: (field, draft) => {
    if (field === '0') return true;
    const [kind, access, preset, ...more] = field.split(',');
    if (kind !== 'POSIX' || access === undefined || preset === undefined || more.length > 0) return false;
    draft.acl = access === '0' ? '' : textOf(access);
    draft.defaultAcl = preset === '0' ? '' : textOf(preset);
    return true;
  },
  sha256: checksum('sha256', 32),
  sha512: checksum('sha512', 64),
  selinux: textColumn('selinux'),
  xattrs: (field, draft) => {
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
  e2fsattrs: number('e2fsAttributes'),
  capabilities: textColumn('capabilities'),
};

/** Undefined if the column is unknown or not read, which applies to checksums that are refused. */
export function readerOfColumn(name: string): ReadAideField | undefined {
  return Object.hasOwn(columns, name) ? columns[name] : undefined;
}

/** The attributes of all entries, derived from the columns; for a database without the column `attr`, which lists them. */
export function attributesOfColumns(names: readonly string[]): AttributeSet {
  let set: AttributeSet = setOf('ftype');
  for (const { column, bit } of attributes) if (column !== '' && names.includes(column)) set |= bit;
  return set;
}

function textOf(encoded: string): string {
  const decoded = Buffer.from(encoded, 'base64').toString('utf8');
  const end = decoded.indexOf('\0');
  return end === -1 ? decoded : decoded.slice(0, end);
}
