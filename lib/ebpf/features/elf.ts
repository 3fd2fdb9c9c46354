/** Reads from an ELF file what a uprobe needs. */
import { closeSync, openSync, readSync } from 'node:fs';

import { errorCodes, RampartError } from '../../errors/errors.ts';

const PT_LOAD = 1;
const fileHeaderSizeBytes = 64;
export const programHeaderSizeBytes = 56;

/**
 * The file offset of the entry point of a 64-bit little-endian ELF file (elf(5): e_entry, found in a PT_LOAD
 * segment).
 *
 * @throws {RampartError} `DECODE` if `file` is not such a file.
 */
export function entryPointOffset(file: string): bigint {
  const fd = openSync(file, 'r');
  try {
    const header = readAt(fd, 0, fileHeaderSizeBytes);
    if (header.length === fileHeaderSizeBytes && header.readUInt32BE(0) === 0x7f454c46 && header[4] === 2) {
      const entry = header.readBigUInt64LE(24);
      const tableOffset = Number(header.readBigUInt64LE(32));
      const count = header.readUInt16LE(56);
      const table = readAt(fd, tableOffset, count * programHeaderSizeBytes);
      const offset = findSegment(table, entry);
      if (offset !== undefined) return offset;
    }
  } finally {
    closeSync(fd);
  }
  throw new RampartError(errorCodes.DECODE, { what: `${file} is not a 64-bit ELF file with an entry point` });
}

/** The file offset of an address of the loaded program; undefined if no segment contains it. */
export function findSegment(table: Buffer, address: bigint): bigint | undefined {
  for (let at = 0; at + programHeaderSizeBytes <= table.length; at += programHeaderSizeBytes) {
    if (table.readUInt32LE(at) !== PT_LOAD) continue;
    const fileOffset = table.readBigUInt64LE(at + 8);
    const virtualAddress = table.readBigUInt64LE(at + 16);
    const fileSizeBytes = table.readBigUInt64LE(at + 32);
    const distance = address - virtualAddress;
    if (distance >= 0n && distance < fileSizeBytes) return fileOffset + distance;
  }
  return undefined;
}

/**
 * Reads up to the requested number of bytes: the file may end earlier.
 *
 * @param buffer to read into, at least as large
 */
export function readAt(
  fd: number,
  offset: number,
  sizeBytes: number,
  buffer = Buffer.alloc(sizeBytes),
): Buffer {
  if (!Number.isSafeInteger(offset)) return buffer.subarray(0, 0);
  return buffer.subarray(0, readSync(fd, buffer, 0, sizeBytes, offset));
}
