/**
 * Looks up functions of an ELF file by name (elf(5)), to place uprobes. Files in containers may contain anything, so every size is bounded.
 */
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { findSegment, programHeaderSizeBytes, readAt } from '../../../../lib/ebpf/features/elf.ts';

const SHT_SYMTAB = 2;
const SHT_DYNSYM = 11;
const STT_FUNC = 2;
const STT_GNU_IFUNC = 10;
const SYMBOL_BYTES = 24;
const SECTION_HEADER_BYTES = 64;
/** Limit of one table; a debug build of a browser has some 100 MiB in each. */
const MAX_TABLE_BYTES = 512 * 1024 * 1024;
/** Limit of symbol tables: elf(5) allows one of each type. */
const MAX_TABLES = 4;
/** Limit of places where a name occurs: linkers write it once, or as the end of another name. */
const MAX_OCCURRENCES = 65_536;
/** How much is read at a time: the size of this many symbols. */
const PIECE_BYTES = 64 * 1024 * SYMBOL_BYTES;

/**
 * The offset in the file of a function's first instruction.
 *
 * @param fd - A regular file, 64-bit and little-endian.
 * @returns undefined if the file has no such function.
 * @throws {RampartError} `DECODE` if it is not an ELF file of this form.
 */
export function functionOffset(fd: number, name: string): bigint | undefined {
  const header = readAt(fd, 0, 64);
  if (header.length < 64 || header.readUInt32BE(0) !== 0x7f454c46 || header[4] !== 2 || header[5] !== 1)
    throw malformed('it is not a 64-bit little-endian ELF file');
  const segments = readAt(
    fd,
    Number(header.readBigUInt64LE(32)),
    header.readUInt16LE(56) * programHeaderSizeBytes,
  );
  const sections = readAt(
    fd,
    Number(header.readBigUInt64LE(40)),
    header.readUInt16LE(60) * SECTION_HEADER_BYTES,
  );
  const wanted = Buffer.from(`${name}\0`, 'latin1');
  let tables = 0;
  for (let at = 0; at + SECTION_HEADER_BYTES <= sections.length; at += SECTION_HEADER_BYTES) {
    const type = sections.readUInt32LE(at + 4);
    if (type !== SHT_SYMTAB && type !== SHT_DYNSYM) continue;
    if (++tables > MAX_TABLES) throw malformed(`it has more than ${MAX_TABLES} symbol tables`);
    const names = section(sections, sections.readUInt32LE(at + 40) * SECTION_HEADER_BYTES, 'string table');
    const begins = occurrences(fd, names, wanted);
    if (begins.size === 0) continue;
    const address = findSymbol(fd, section(sections, at, 'symbol table'), begins);
    const offset = address === undefined ? undefined : findSegment(segments, address);
    if (offset !== undefined) return offset;
  }
  return undefined;
}

interface Section {
  readonly offset: number;
  readonly sizeBytes: number;
}

/** The offsets in a string table at which the name is found. */
function occurrences(fd: number, names: Section, wanted: Buffer): ReadonlySet<number> {
  const found = new Set<number>();
  for (const { piece, at } of pieces(fd, names, wanted.length - 1)) {
    for (let begin = piece.indexOf(wanted); begin >= 0; begin = piece.indexOf(wanted, begin + 1)) {
      found.add(at + begin);
      if (found.size > MAX_OCCURRENCES)
        throw malformed(`its string table has the name more than ${MAX_OCCURRENCES} times`);
    }
  }
  return found;
}

function findSymbol(fd: number, symbols: Section, names: ReadonlySet<number>): bigint | undefined {
  for (const { piece } of pieces(fd, symbols, 0)) {
    for (let at = 0; at + SYMBOL_BYTES <= piece.length; at += SYMBOL_BYTES) {
      const type = piece.readUInt8(at + 4) & 0xf;
      if (type !== STT_FUNC && type !== STT_GNU_IFUNC) continue;
      if (!names.has(piece.readUInt32LE(at))) continue;
      const address = piece.readBigUInt64LE(at + 8);
      // 0 means that the function is defined in another file.
      if (address !== 0n) return address;
    }
  }
  return undefined;
}

/** Reads a section in pieces up to the end of the file; each piece includes the first `overlapBytes` of the next one. */
function* pieces(
  fd: number,
  { offset, sizeBytes }: Section,
  overlapBytes: number,
): Generator<{ readonly piece: Buffer; readonly at: number }> {
  // One buffer for all pieces: a piece is valid until the next one is read.
  const buffer = Buffer.allocUnsafeSlow(Math.min(PIECE_BYTES + overlapBytes, sizeBytes));
  for (let at = 0; at < sizeBytes; at += PIECE_BYTES) {
    const piece = readAt(fd, offset + at, Math.min(buffer.length, sizeBytes - at), buffer);
    if (piece.length === 0) return;
    yield { piece, at };
  }
}

function section(sections: Buffer, at: number, what: string): Section {
  if (at + SECTION_HEADER_BYTES > sections.length) return { offset: 0, sizeBytes: 0 };
  const sizeBytes = Number(sections.readBigUInt64LE(at + 32));
  if (sizeBytes > MAX_TABLE_BYTES)
    throw malformed(`its ${what} has ${sizeBytes} bytes; the limit is ${MAX_TABLE_BYTES}`);
  return { offset: Number(sections.readBigUInt64LE(at + 24)), sizeBytes };
}

function malformed(what: string): RampartError {
  return new RampartError(errorCodes.DECODE, { what });
}
