/**
 * Reads archives in image layers: tar (POSIX ustar and pax, GNU long names), plain or compressed with gzip or zstd. It supports only what a
 * bytecode layer needs: regular files of bounded size and number. Entries that could lead elsewhere (links, devices, names with "..") are
 * refused, not skipped: they suggest malice. Nothing is written to disk.
 */
import { promisify } from 'node:util';
import { gunzip, zstdDecompress } from 'node:zlib';

import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';

export interface ArchiveLimits {
  /** Maximum number of files. Default: 100. */
  readonly files?: number;
  /** Maximum size of one file, in bytes. Default: 16 MiB. */
  readonly fileBytes?: number;
  /** Maximum size of the uncompressed archive, in bytes. Default: 24 MiB. */
  readonly totalBytes?: number;
}

export interface ArchiveFile {
  /** Relative, without "." and "..": `bytecode/pass.o`. */
  readonly path: string;
  readonly bytes: Uint8Array;
}

const defaults = { files: 100, fileBytes: 16 << 20, totalBytes: 24 << 20 };
const BLOCK = 512;
/** Limit of entries for each permitted file: there are also directories and headers. */
const ENTRIES_FOR_EACH_FILE = 10;
const MAX_NAME_BYTES = 4096;

const gunzipAsync = promisify(gunzip);
const zstdAsync = promisify(zstdDecompress);

/**
 * The files of an archive.
 *
 * @param what - The layer, for messages.
 * @throws {RampartError} `CORRUPT` if it is not such an archive, `LIMIT` if it is too large, `INPUT` if it has entries that
 *   are refused
 * @example
 * const [bytecode] = await readArchive(await registry.layer(artifact, layer), `the layer of ${artifact.reference}`);
 */
export async function readArchive(
  bytes: Uint8Array,
  what: string,
  limits: ArchiveLimits = {},
): Promise<ArchiveFile[]> {
  const bounds = { ...defaults, ...limits };
  const tar = await decompressed(bytes, what, bounds.totalBytes);
  return readFiles(tar, what, bounds);
}

async function decompressed(bytes: Uint8Array, what: string, maxOutputLength: number): Promise<Buffer> {
  const isGzip = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const isZstd = bytes[0] === 0x28 && bytes[1] === 0xb5 && bytes[2] === 0x2f && bytes[3] === 0xfd;
  try {
    if (isGzip) return await gunzipAsync(bytes, { maxOutputLength });
    if (isZstd) return await zstdAsync(bytes, { maxOutputLength });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE')
      throw totalTooLarge(what, maxOutputLength);
    throw new RampartError(errorCodes.CORRUPT, {
      what: `${what} cannot be decompressed`,
      why: (error as Error).message,
    });
  }
  if (bytes.length > maxOutputLength) throw totalTooLarge(what, maxOutputLength);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

interface Header {
  readonly name: string;
  readonly size: number;
  readonly type: string;
}

function readFiles(tar: Buffer, what: string, limits: Required<ArchiveLimits>): ArchiveFile[] {
  let at = 0;

  /** The next real entry, with the information from the headers that precede it; undefined at the end. */
  function nextEntry(): Header | undefined {
    let longName: string | undefined;
    let pax: ReadonlyMap<string, string> = new Map();
    for (let extras = 0; ; extras++) {
      if (extras > 4) throw corrupt('an entry has too many headers');
      const header = readHeader();
      if (header === undefined) {
        if (extras > 0) throw corrupt('it ends after a header');
        return undefined;
      }
      if (header.type === 'L') longName = text(readExtra(header));
      else if (header.type === 'x') pax = readPax(readExtra(header));
      // A global header for all following entries: it has comments, such as git's, and is skipped.
      else if (header.type === 'g') readPax(readExtra(header));
      else {
        const size = pax.has('size') ? Number(pax.get('size')) : header.size;
        if (!Number.isSafeInteger(size) || size < 0) throw corrupt('a size is malformed');
        if ([...pax.keys()].some((key) => key.startsWith('GNU.sparse.')))
          throw refused('it contains sparse files');
        return { type: header.type, size, name: pax.get('path') ?? longName ?? header.name };
      }
    }
  }

  function readHeader(): Header | undefined {
    const block = tar.subarray(at, at + BLOCK);
    if (block.length < BLOCK) throw corrupt('it ends without an end marker');
    if (isZero(block)) {
      // Two zero blocks end an archive. Data after them is refused, because some readers would read it and others would not.
      if (!isZero(tar.subarray(at))) throw corrupt('it has data after its end marker');
      return undefined;
    }
    at += BLOCK;
    const sum = numberAt(block, 148, 8);
    let own = 0;
    for (const [index, byte] of block.entries()) own += index >= 148 && index < 156 ? 32 : byte;
    if (sum !== own) throw corrupt('the checksum of a header is wrong');
    const size = numberAt(block, 124, 12);
    if (size === undefined) throw corrupt('a size is malformed');
    const isPosix = block.toString('latin1', 257, 263) === 'ustar\0';
    const prefix = isPosix ? text(block.subarray(345, 500)) : '';
    const name = text(block.subarray(0, 100));
    const type = String.fromCharCode(block[156] ?? 0);
    return {
      name: prefix === '' ? name : `${prefix}/${name}`,
      size,
      type: type === '\0' || type === '7' ? '0' : type,
    };
  }

  /** The data of a header that describes the next entry. */
  function readExtra({ size }: Header): Buffer {
    if (size > 16 * MAX_NAME_BYTES) throw over('it has a header that is too large');
    return readContent(size);
  }

  /** Reads lines of the form `length key=value`, where the length is that of the whole line in bytes, with its newline. */
  function readPax(data: Buffer): ReadonlyMap<string, string> {
    const records = new Map<string, string>();
    for (let from = 0; from < data.length;) {
      const space = data.indexOf(0x20, from);
      const digits = space < 0 ? '' : data.toString('latin1', from, space);
      const end = from + Number(digits);
      if (!/^[1-9]\d{0,6}$/.test(digits) || end > data.length || data[end - 1] !== 0x0a || end <= space) {
        throw corrupt('a pax header is malformed');
      }
      const record = data.toString('utf8', space + 1, end - 1);
      const equals = record.indexOf('=');
      if (equals <= 0) throw corrupt('a pax header is malformed');
      records.set(record.slice(0, equals), record.slice(equals + 1));
      from = end;
    }
    return records;
  }

  function readContent(size: number): Buffer {
    const end = at + size;
    if (end > tar.length) throw corrupt('it ends within a file');
    const content = tar.subarray(at, end);
    at += Math.ceil(size / BLOCK) * BLOCK;
    return content;
  }

  function checkedPath(name: string): string {
    if (Buffer.byteLength(name) > MAX_NAME_BYTES) throw over('a name is too long');
    if (name.includes('\0') || name.includes('\uFFFD')) throw refused('a name is not valid text');
    const parts = name.split('/');
    if (name.startsWith('/') || parts.includes('..'))
      throw refused(`the name ${JSON.stringify(name)} points outside the archive`);
    return parts.filter((part) => part !== '' && part !== '.').join('/');
  }

  function corrupt(why: string): RampartError {
    return new RampartError(errorCodes.CORRUPT, {
      what: `${what} is not a readable archive`,
      why,
    });
  }

  function refused(why: string): RampartError {
    return new RampartError(errorCodes.INPUT, { what: `${what} is refused`, why });
  }

  function over(why: string): RampartError {
    return new RampartError(errorCodes.LIMIT, { what: `${what} is too large`, why });
  }

  const files = new Map<string, Uint8Array>();
  const maxEntries = limits.files * ENTRIES_FOR_EACH_FILE + 100;
  for (let entries = 0; ; entries++) {
    if (entries > maxEntries) throw over(`it has more than ${maxEntries} entries`);
    const header = nextEntry();
    if (header === undefined) break;
    const path = checkedPath(header.name);
    if (header.type === '5') {
      if (header.size !== 0) throw corrupt(`the directory ${path} has contents`);
      continue;
    }
    if (header.type !== '0') {
      throw refused(
        `${path} is ${kinds[header.type] ?? `of type ${JSON.stringify(header.type)}`}, not a regular file`,
      );
    }
    if (path === '') throw refused('a file has no name');
    if (header.size > limits.fileBytes) {
      throw over(`${path} has ${header.size} bytes, and the limit is ${limits.fileBytes}`);
    }
    if (files.size >= limits.files) throw over(`it has more than ${limits.files} files`);
    if (files.has(path)) throw refused(`${path} appears twice`);
    files.set(path, readContent(header.size));
  }
  for (const path of files.keys()) {
    for (let slash = path.indexOf('/'); slash > 0; slash = path.indexOf('/', slash + 1)) {
      const parent = path.slice(0, slash);
      if (files.has(parent)) throw refused(`${parent} is a file and a directory`);
    }
  }
  return [...files].map(([path, bytes]) => ({ path, bytes }));
}

const kinds: Readonly<Record<string, string>> = {
  '1': 'a hard link',
  '2': 'a symbolic link',
  '3': 'a device',
  '4': 'a device',
  '6': 'a FIFO',
  S: 'a sparse file',
};

function totalTooLarge(what: string, limit: number): RampartError {
  return new RampartError(errorCodes.LIMIT, {
    what: `${what} is too large`,
    why: `decompressed, it exceeds ${limit} bytes`,
  });
}

/** The text up to the first zero byte. */
function text(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return Buffer.from(end < 0 ? bytes : bytes.subarray(0, end)).toString();
}

function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0);
}

/** A number in octal digits or, if the first bit is set, in big-endian bytes as in GNU tar. */
function numberAt(block: Buffer, at: number, length: number): number | undefined {
  const first = block[at] ?? 0;
  if ((first & 0x80) !== 0) {
    let value = first & 0x7f;
    for (const byte of block.subarray(at + 1, at + length)) value = value * 256 + byte;
    return Number.isSafeInteger(value) ? value : undefined;
  }
  const digits = /^ *([0-7]*)[ \0]*$/.exec(block.toString('latin1', at, at + length))?.[1];
  return digits === undefined || digits === '' ? undefined : Number.parseInt(digits, 8);
}
