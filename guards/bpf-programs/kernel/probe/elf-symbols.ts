/**
 * Functions of an ELF file by name (elf(5)): where a uprobe goes. Files of containers may be anything, so every size is bounded.
 */
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { findSegment, programHeaderSizeBytes, readAt } from '../../../../lib/ebpf/features/elf.ts';

const SHT_SYMTAB = 2;
const SHT_DYNSYM = 11;
const STT_FUNC = 2;
const STT_GNU_IFUNC = 10;
const SYMBOL_BYTES = 24;
const SECTION_HEADER_BYTES = 64;
/** A debug build of a browser has some 100 MiB of each. */
const MOST_TABLE_BYTES = 512 * 1024 * 1024;

/**
 * The offset in the file of a function's first instruction.
 *
 * @param fd - A regular file, 64-bit and little-endian.
 * @returns undefined where it has no such function.
 * @throws {RampartError} `DECODE` when it is no such file.
 */
export function functionOffset(fd: number, name: string): bigint | undefined {
  const header = readAt(fd, 0, 64);
  if (header.length < 64 || header.readUInt32BE(0) !== 0x7f454c46 || header[4] !== 2 || header[5] !== 1)
    throw new RampartError(errorCodes.DECODE, { what: 'it is not a 64-bit little-endian ELF file' });
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
  for (let at = 0; at + SECTION_HEADER_BYTES <= sections.length; at += SECTION_HEADER_BYTES) {
    const type = sections.readUInt32LE(at + 4);
    if (type !== SHT_SYMTAB && type !== SHT_DYNSYM) continue;
    const symbols = section(fd, sections, at);
    const strings = section(fd, sections, sections.readUInt32LE(at + 40) * SECTION_HEADER_BYTES);
    const address = findSymbol(symbols, strings, wanted);
    const offset = address === undefined ? undefined : findSegment(segments, address);
    if (offset !== undefined) return offset;
  }
  return undefined;
}

function findSymbol(symbols: Buffer, strings: Buffer, wanted: Buffer): bigint | undefined {
  for (let at = 0; at + SYMBOL_BYTES <= symbols.length; at += SYMBOL_BYTES) {
    const type = symbols.readUInt8(at + 4) & 0xf;
    if (type !== STT_FUNC && type !== STT_GNU_IFUNC) continue;
    const begin = symbols.readUInt32LE(at);
    const end = begin + wanted.length;
    if (end > strings.length || strings.compare(wanted, 0, wanted.length, begin, end) !== 0) continue;
    const address = symbols.readBigUInt64LE(at + 8);
    // 0: it only uses one of another file.
    if (address !== 0n) return address;
  }
  return undefined;
}

function section(fd: number, sections: Buffer, at: number): Buffer {
  if (at + SECTION_HEADER_BYTES > sections.length) return Buffer.alloc(0);
  const sizeBytes = Number(sections.readBigUInt64LE(at + 32));
  if (sizeBytes > MOST_TABLE_BYTES)
    throw new RampartError(errorCodes.DECODE, { what: `its symbol table has ${sizeBytes} bytes` });
  return readAt(fd, Number(sections.readBigUInt64LE(at + 24)), sizeBytes);
}
