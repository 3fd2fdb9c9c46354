/** Writes a database that AIDE 0.16 to 0.19 reads, for those who go on with AIDE. */
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { aideMaskOf, aideNameBit } from '../model/aide-mask.ts';
import { type AttributeName, type AttributeSet, setOf } from '../model/attributes.ts';
import { type Batches, unpack } from '../model/batches.ts';
import { fileTypes, type Entry } from '../model/entry.ts';
import { typeBits, typeShift } from './aide-columns.ts';
import { encodeName, encodeOptionalName, encodeTime } from './aide-text.fixture.ts';
import { replaceFile } from './replace-file.ts';

interface Field {
  /** For an entry whose attributes ask for it. */
  readonly write: (entry: Entry) => string;
  /**
   * The attributes that an entry must have for it to be written; AIDE writes a 0 for others. Empty: every
   * entry has it.
   */
  readonly neededFor: readonly AttributeName[];
}

/** In the order in which AIDE writes them. */
const fields: Readonly<Record<string, Field>> = {
  name: { write: ({ path }) => encodeName(path), neededFor: [] },
  lname: { write: ({ linkTarget }) => encodeOptionalName(linkTarget), neededFor: ['l'] },
  // AIDE has the whole mode there, whatever was asked for: its type is the file's.
  perm: {
    write: ({ type, permissions }) =>
      ((typeBits[fileTypes.indexOf(type)] ?? 0) * typeShift + permissions).toString(8),
    neededFor: [],
  },
  uid: { write: ({ uid }) => String(uid), neededFor: ['u'] },
  gid: { write: ({ gid }) => String(gid), neededFor: ['g'] },
  size: { write: ({ sizeBytes }) => String(sizeBytes), neededFor: ['s', 'S', 'growing'] },
  atime: { write: ({ accessTimeS }) => encodeTime(accessTimeS), neededFor: ['a'] },
  ctime: { write: ({ changeTimeS }) => encodeTime(changeTimeS), neededFor: ['c'] },
  mtime: { write: ({ modifyTimeS }) => encodeTime(modifyTimeS), neededFor: ['m'] },
  inode: { write: ({ inode }) => BigInt.asIntN(64, inode).toString(), neededFor: [] },
  bcount: { write: ({ blockCount }) => String(blockCount), neededFor: ['b'] },
  lcount: { write: ({ linkCount }) => String(linkCount), neededFor: ['n'] },
  attr: { write: ({ attributes }) => String(aideMaskOf(attributes) + aideNameBit), neededFor: [] },
  acl: {
    write: ({ acl, defaultAcl }) =>
      acl === '' && defaultAcl === '' ? '0' : `POSIX,${textField(acl)},${textField(defaultAcl)}`,
    neededFor: ['acl'],
  },
  sha256: { write: ({ sha256 }) => base64(sha256), neededFor: ['sha256'] },
  sha512: { write: ({ sha512 }) => base64(sha512), neededFor: ['sha512'] },
  selinux: { write: ({ selinux }) => textField(selinux), neededFor: ['selinux'] },
  xattrs: {
    write({ xattrs }) {
      if (xattrs.length === 0) return '0';
      const parts = xattrs.map(
        ([name, value]) => `${encodeOptionalName(name).replaceAll(',', '%2C')},${base64(value)}`,
      );
      return [String(xattrs.length), ...parts].join(',');
    },
    neededFor: ['xattrs'],
  },
  e2fsattrs: { write: ({ e2fsAttributes }) => String(e2fsAttributes), neededFor: ['e2fsattrs'] },
  capabilities: { write: ({ capabilities }) => textField(capabilities), neededFor: ['caps'] },
};

function base64(bytes: Uint8Array): string {
  if (bytes.length === 0) return '0';
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

function textField(text: string): string {
  return base64(Buffer.from(text, 'utf8'));
}

export interface WriteAideDatabaseOptions {
  readonly path: string;
  readonly entries: Batches<Entry>;
  /** All attributes that an entry may have: they make the columns. */
  readonly attributes: AttributeSet;
  readonly gzip?: boolean;
  /** Lines of comments at the top, without their `#`. */
  readonly comments?: readonly string[];
  readonly signal?: AbortSignal;
}

/**
 * Puts it in the place of what is there, at once and whole, as `replaceFile` does.
 *
 * @throws RampartError FULL, SYSTEM; what `entries` throws; the reason of `signal`
 */
export async function writeAideDatabase(options: WriteAideDatabaseOptions): Promise<{ entries: number }> {
  const { path, entries, attributes, gzip = false, comments = [], signal } = options;
  const columns = Object.entries(fields).filter(([, field]) => hasField(attributes, field));
  const written = columns.map(([, field]) => field);
  let count = 0;
  async function* text(): AsyncGenerator<Buffer, void, undefined> {
    const notes = comments.flatMap((comment) => comment.split('\n')).map((line) => `# ${line}\n`);
    const names = columns.map(([name]) => name).join(' ');
    yield Buffer.from(`@@begin_db\n${notes.join('')}@@db_spec ${names} \n`);
    for await (const batch of entries) {
      signal?.throwIfAborted();
      const rows = unpack(batch);
      count += rows.length;
      yield Buffer.from(rows.map((entry) => rowOf(entry, written)).join(''), 'latin1');
    }
    yield Buffer.from('@@end_db\n');
  }
  await replaceFile(path, async (file) => {
    const write = async (parts: AsyncIterable<Buffer>): Promise<void> => {
      for await (const part of parts) await file.writeFile(part);
    };
    if (gzip) await pipeline(text, createGzip(), write);
    else await write(text());
  });
  return { entries: count };
}

function hasField(attributes: AttributeSet, { neededFor }: Field): boolean {
  return neededFor.length === 0 || (setOf(...neededFor) & attributes) !== 0;
}

function rowOf(entry: Entry, columns: readonly Field[]): string {
  const texts = columns.map((column) => (hasField(entry.attributes, column) ? column.write(entry) : '0'));
  return `${texts.join(' ')}\n`;
}
