/**
 * Encodes entries as bytes, about 50 for one with a sha256. Each block of entries can be decoded by itself: what
 * repeats in it (the start of the path, the type with mode and owner, ACLs, labels, names of extended attributes) is
 * stored once. A field is stored only if an attribute of the entry requires it; otherwise decoding returns its default.
 */
import { aideMaskOf, setOfAideMask } from '../model/aide-mask.ts';
import { type AttributeSet, checksums, setOf } from '../model/attributes.ts';
import { type ByteString, type Entry, fileTypes } from '../model/entry.ts';
import { ByteReader, ByteWriter, isUsualTime, MalformedBytes } from './bytes.ts';

/** For each field, the attributes that require it; without any of them, the field is not stored and has its default. */
export const has = {
  permissions: setOf('p'),
  uid: setOf('u'),
  gid: setOf('g'),
  linkCount: setOf('n'),
  // The comparison needs these fields for other attributes too: the inode finds a moved file, the size shows that a
  // file has grown.
  inode: setOf('i', 'I'),
  size: setOf('s', 'S', 'growing'),
  blockCount: setOf('b'),
  accessTime: setOf('a'),
  modifyTime: setOf('m'),
  changeTime: setOf('c'),
  linkTarget: setOf('l'),
  acl: setOf('acl'),
  selinux: setOf('selinux'),
  xattrs: setOf('xattrs'),
  e2fsAttributes: setOf('e2fsattrs'),
  capabilities: setOf('caps'),
  sha256: setOf('sha256'),
  sha512: setOf('sha512'),
};

const noBytes = new Uint8Array(0);
const noXattrs: Entry['xattrs'] = [];

export interface BlockFacts {
  readonly count: number;
  /** All attributes that occur in the entries. */
  readonly attributes: AttributeSet;
  readonly contentBytes: number;
  readonly lastPath: ByteString;
}

/** Number of bytes that are read of a file for its checksums; 0 if its size was not recorded. */
export function contentBytesOf({ attributes, type, sizeBytes }: Entry): number {
  return (attributes & checksums) !== 0 && type === 'f' ? sizeBytes : 0;
}

/** Properties that most entries have in common with others. */
interface EntryClass {
  readonly type: Entry['type'];
  readonly attributes: AttributeSet;
  readonly permissions: number;
  readonly uid: number;
  readonly gid: number;
  readonly sha256Bytes: number;
  readonly sha512Bytes: number;
}

const longestPathBytes = 1 << 20;
const fullBytes = 64 * 1024;

/** Thrown if entries are not added in the order of their paths' bytes. */
export class UnsortedEntries extends Error {}

export class EntryEncoder {
  readonly #writer = new ByteWriter(128 * 1024);
  readonly #classes = new Map<string, number>();
  readonly #texts = new Map<string, number>();
  #last: EntryClass = {
    ...{ type: 'f', attributes: 0, permissions: 0, uid: 0, gid: 0, sha256Bytes: 0, sha512Bytes: 0 },
  };
  #lastClass = 0;
  #path = '';
  #modifyTimeS = 0;
  #attributes = 0;
  #contentBytes = 0;
  count = 0;

  /** Size of the block so far. */
  get sizeBytes(): number {
    return this.#writer.length;
  }

  /** Whether the block should be ended with {@link take}. */
  get isFull(): boolean {
    return this.sizeBytes >= fullBytes;
  }

  get facts(): BlockFacts {
    const { count } = this;
    return {
      count,
      attributes: this.#attributes,
      contentBytes: this.#contentBytes,
      lastPath: this.#path,
    };
  }

  /** @throws UnsortedEntries if its path sorts before the previous one */
  add(entry: Entry): void {
    const writer = this.#writer;
    const { path, attributes: set } = entry;
    const last = this.#path;
    const shared = sharedLength(last, path);
    if (shared < last.length && !(path.charCodeAt(shared) > last.charCodeAt(shared))) {
      throw new UnsortedEntries(`${JSON.stringify(path)} comes after ${JSON.stringify(last)}`);
    }
    writer.unsigned(shared);
    writer.latin1(path, shared);
    this.#path = path;
    this.#attributes |= set;
    this.#contentBytes += contentBytesOf(entry);
    this.#class(entry);
    if (set & has.linkCount) writer.number(entry.linkCount);
    if (set & has.inode) writer.unsigned64(entry.inode);
    if (set & has.size) writer.number(entry.sizeBytes);
    if (set & has.blockCount) writer.number(entry.blockCount);
    // Times are relative to the last modification time: files of one package have the same, and the times of a file are
    // close to each other.
    if (set & has.modifyTime) {
      writer.time(entry.modifyTimeS, this.#modifyTimeS);
      if (isUsualTime(entry.modifyTimeS)) this.#modifyTimeS = entry.modifyTimeS;
    }
    if (set & has.changeTime) writer.time(entry.changeTimeS, this.#modifyTimeS);
    if (set & has.accessTime) writer.time(entry.accessTimeS, this.#modifyTimeS);
    if (set & has.linkTarget) writer.latin1(entry.linkTarget);
    if (set & has.acl) {
      this.#text(entry.acl);
      this.#text(entry.defaultAcl);
    }
    if (set & has.selinux) this.#text(entry.selinux);
    if (set & has.xattrs) {
      writer.unsigned(entry.xattrs.length);
      for (const [name, value] of entry.xattrs) {
        this.#text(name);
        writer.block(value);
      }
    }
    if (set & has.e2fsAttributes) writer.unsigned(entry.e2fsAttributes);
    if (set & has.capabilities) this.#text(entry.capabilities);
    if (set & has.sha256) writer.raw(entry.sha256);
    if (set & has.sha512) writer.raw(entry.sha512);
    this.count++;
  }

  /** Returns the block, which is valid until the next {@link add}, and starts another one. */
  take(): Buffer {
    const { bytes } = this.#writer;
    this.#writer.clear();
    this.#classes.clear();
    this.#texts.clear();
    this.#path = '';
    this.#modifyTimeS = 0;
    this.#attributes = 0;
    this.#contentBytes = 0;
    this.count = 0;
    return bytes;
  }

  #class(entry: Entry): void {
    const { type, attributes: set } = entry;
    const permissions = set & has.permissions ? entry.permissions : 0;
    const uid = set & has.uid ? entry.uid : 0;
    const gid = set & has.gid ? entry.gid : 0;
    const sha256Bytes = set & has.sha256 ? entry.sha256.length : 0;
    const sha512Bytes = set & has.sha512 ? entry.sha512.length : 0;
    const writer = this.#writer;
    // Most entries equal the previous one here: then no key has to be built.
    const last = this.#last;
    if (
      last.type === type &&
      last.attributes === set &&
      last.permissions === permissions &&
      last.uid === uid &&
      last.gid === gid &&
      last.sha256Bytes === sha256Bytes &&
      last.sha512Bytes === sha512Bytes &&
      this.#classes.size > 0
    ) {
      writer.unsigned(this.#lastClass);
      return;
    }
    const key = `${type}${set},${permissions},${uid},${gid},${sha256Bytes},${sha512Bytes}`;
    const known = this.#classes.get(key);
    this.#last = { type, attributes: set, permissions, uid, gid, sha256Bytes, sha512Bytes };
    this.#lastClass = known ?? this.#classes.size;
    writer.unsigned(this.#lastClass);
    if (known !== undefined) return;
    this.#classes.set(key, this.#classes.size);
    writer.byte(fileTypes.indexOf(type));
    writer.unsigned(aideMaskOf(set));
    writer.unsigned(permissions);
    writer.unsigned(uid);
    writer.unsigned(gid);
    writer.unsigned(sha256Bytes);
    writer.unsigned(sha512Bytes);
  }

  #text(text: string): void {
    const known = this.#texts.get(text);
    this.#writer.unsigned(known ?? this.#texts.size);
    if (known !== undefined) return;
    this.#texts.set(text, this.#texts.size);
    this.#writer.text(text);
  }
}

/**
 * Decodes a block of {@link EntryEncoder}. Checksums and attribute values are views of `block`.
 *
 * @throws MalformedBytes
 */
export function decodeEntries(block: Buffer): Entry[] {
  const reader = new ByteReader(block);
  const classes: EntryClass[] = [];
  const texts: string[] = [];
  const entries: Entry[] = [];
  let path = Buffer.allocUnsafe(4096);
  let pathBytes = 0;
  let lastTimeS = 0;

  const readText = (): string => {
    const at = reader.unsigned();
    if (at === texts.length) texts.push(reader.text());
    const text = texts[at];
    if (text === undefined) throw new MalformedBytes('it refers to a text that does not exist');
    return text;
  };

  while (!reader.ended) {
    const shared = reader.unsigned();
    const own = reader.unsigned();
    if (shared > pathBytes || shared + own > longestPathBytes) throw new MalformedBytes('a path is too long');
    if (shared + own > path.length) path = Buffer.concat([path], 2 * (shared + own));
    reader.into(path, shared, own);
    pathBytes = shared + own;
    const classAt = reader.unsigned();
    if (classAt === classes.length) classes.push(readClass(reader));
    const kind = classes[classAt];
    if (kind === undefined) throw new MalformedBytes('it refers to a class that does not exist');
    const set = kind.attributes;
    const linkCount = set & has.linkCount ? reader.number() : 0;
    const inode = set & has.inode ? reader.unsigned64() : 0n;
    const sizeBytes = set & has.size ? reader.number() : 0;
    const blockCount = set & has.blockCount ? reader.number() : 0;
    const modifyTimeS = set & has.modifyTime ? reader.time(lastTimeS) : 0;
    if (set & has.modifyTime && isUsualTime(modifyTimeS)) lastTimeS = modifyTimeS;
    entries.push({
      path: path.toString('latin1', 0, pathBytes),
      type: kind.type,
      attributes: set,
      permissions: kind.permissions,
      uid: kind.uid,
      gid: kind.gid,
      linkCount,
      inode,
      sizeBytes,
      blockCount,
      modifyTimeS,
      // The fields from here on are read in the order in which they were written.
      changeTimeS: set & has.changeTime ? reader.time(lastTimeS) : 0,
      accessTimeS: set & has.accessTime ? reader.time(lastTimeS) : 0,
      linkTarget: set & has.linkTarget ? reader.latin1() : '',
      acl: set & has.acl ? readText() : '',
      defaultAcl: set & has.acl ? readText() : '',
      selinux: set & has.selinux ? readText() : '',
      xattrs: set & has.xattrs ? readXattrs(reader, readText) : noXattrs,
      e2fsAttributes: set & has.e2fsAttributes ? reader.unsigned() : 0,
      capabilities: set & has.capabilities ? readText() : '',
      sha256: kind.sha256Bytes > 0 ? reader.raw(kind.sha256Bytes) : noBytes,
      sha512: kind.sha512Bytes > 0 ? reader.raw(kind.sha512Bytes) : noBytes,
    });
  }
  return entries;
}

/** The path of a block's first entry; does not decode the other entries. @throws MalformedBytes */
export function firstPathOf(block: Buffer): ByteString {
  const reader = new ByteReader(block);
  if (reader.unsigned() !== 0) throw new MalformedBytes('the start of its first path is missing');
  return reader.latin1();
}

function readClass(reader: ByteReader): EntryClass {
  const type = fileTypes[reader.byte()];
  if (type === undefined) throw new MalformedBytes('it has an unknown file type');
  return {
    type,
    attributes: setOfAideMask(reader.unsigned()).set,
    permissions: reader.unsigned(),
    uid: reader.unsigned(),
    gid: reader.unsigned(),
    sha256Bytes: reader.unsigned(),
    sha512Bytes: reader.unsigned(),
  };
}

function readXattrs(reader: ByteReader, readText: () => string): Entry['xattrs'] {
  const count = reader.unsigned();
  const xattrs: [string, Uint8Array][] = [];
  for (let i = 0; i < count; i++) xattrs.push([readText(), reader.block()]);
  return count === 0 ? noXattrs : xattrs;
}

function sharedLength(one: string, other: string): number {
  const max = Math.min(one.length, other.length);
  let at = 0;
  while (at < max && one.charCodeAt(at) === other.charCodeAt(at)) at++;
  return at;
}
