/**
 * How a queue file begins: whose it is, how far it was read and, once it is complete, how much is in it; so no other file
 * has to agree with it.
 *
 * | bytes | what                                                                        |
 * | ----- | --------------------------------------------------------------------------- |
 * | 0     | the kind of the queue                                                       |
 * | 8     | CRC-32 of the name, u32                                                     |
 * | 12    | length of the name, u32                                                     |
 * | 16    | cursor: u32 offset, u32 records that are done with, u32 CRC-32 of both      |
 * | 28    | seal: u32 offset of the end, u32 records, u32 CRC-32 of both; else zeros    |
 * | 40    | the name, then the records                                                  |
 *
 * If the cursor is damaged, reading starts at the beginning, which reads records twice but loses none. If the seal is
 * damaged, the records are counted.
 */
import { fstatSync, readSync, writeSync } from 'node:fs';
import { crc32 } from 'node:zlib';

/** The identity of a queue, as stored in its files. */
export interface QueueName {
  /** Eight characters of ASCII: what kind of queue it is, and so what its name means. */
  readonly kind: string;
  readonly text: string;
}

const KIND_BYTES = 8;
const NAME_CHECKSUM_AT = 8;
const NAME_LENGTH_AT = 12;
export const CURSOR_AT = 16;
export const SEAL_AT = 28;
const SLOT_BYTES = 12;
const FIXED_BYTES = 40;
/** Limit of a queue's name in UTF-8. */
export const MAX_NAME_BYTES = 8192;

/** Where the records begin and end, how many there are, and how far they are done with. */
export interface Extent {
  startBytes: number;
  endBytes: number;
  records: number;
  passedBytes: number;
  passedRecords: number;
}

/** Size of the header in a file of this queue. */
export function headerBytes({ text }: QueueName): number {
  return FIXED_BYTES + Buffer.byteLength(text);
}

/** A new header, with the cursor at the first record. */
export function encodeHeader({ kind, text }: QueueName): Buffer {
  const name = Buffer.from(text);
  const header = Buffer.alloc(FIXED_BYTES + name.byteLength);
  header.write(kind, 0, KIND_BYTES, 'latin1');
  header.writeUInt32LE(crc32(name), NAME_CHECKSUM_AT);
  header.writeUInt32LE(name.byteLength, NAME_LENGTH_AT);
  header.set(name, FIXED_BYTES);
  header.set(encodeSlot(header.byteLength, 0), CURSOR_AT);
  return header;
}

/** The cursor or the seal, to be written at {@link CURSOR_AT} or {@link SEAL_AT}. */
export function encodeSlot(offset: number, records: number): Buffer {
  const slot = Buffer.allocUnsafe(SLOT_BYTES);
  slot.writeUInt32LE(offset, 0);
  slot.writeUInt32LE(records, 4);
  slot.writeUInt32LE(crc32(slot.subarray(0, 8)), 8);
  return slot;
}

export interface Header {
  readonly name: QueueName;
  readonly extent: Extent;
  readonly sealed: boolean;
  readonly sizeBytes: number;
}

/** @returns undefined when it is damaged. */
export function readHeader(fd: number): Header | undefined {
  const header = Buffer.alloc(FIXED_BYTES + MAX_NAME_BYTES);
  const readBytes = readSync(fd, header, 0, header.byteLength, 0);
  if (readBytes < FIXED_BYTES) return undefined;
  const startBytes = FIXED_BYTES + header.readUInt32LE(NAME_LENGTH_AT);
  if (startBytes > readBytes) return undefined;
  const text = header.subarray(FIXED_BYTES, startBytes);
  if (crc32(text) !== header.readUInt32LE(NAME_CHECKSUM_AT)) return undefined;
  const name: QueueName = { kind: header.toString('latin1', 0, KIND_BYTES), text: text.toString() };
  const { size } = fstatSync(fd);
  const cursor = readSlot(header, CURSOR_AT);
  const seal = readSlot(header, SEAL_AT);
  // After a loss of power the cursor may have reached the disk and the records not.
  const passedBytes = Math.min(Math.max(cursor?.offset ?? 0, startBytes), size);
  const passedRecords = cursor?.records ?? 0;
  const sealed = seal !== undefined && seal.records >= passedRecords;
  // If the disk has lost the end of a complete file, the loss of its records is noticed when they are read.
  const end = sealed ? { endBytes: Math.min(seal.offset, size), records: seal.records } : undefined;
  const extent: Extent = {
    startBytes,
    passedBytes,
    passedRecords,
    endBytes: end?.endBytes ?? passedBytes,
    records: end?.records ?? passedRecords,
  };
  return { name, extent, sealed, sizeBytes: size };
}

function readSlot(
  buffer: Buffer,
  at: number,
): { readonly offset: number; readonly records: number } | undefined {
  const offset = buffer.readUInt32LE(at);
  if (offset === 0 || crc32(buffer.subarray(at, at + 8)) !== buffer.readUInt32LE(at + 8)) return undefined;
  return { offset, records: buffer.readUInt32LE(at + 4) };
}

/** write(2) may write less than it was given. */
export function writeAll(fd: number, buffer: Buffer, sizeBytes: number, position: number): void {
  for (let written = 0; written < sizeBytes;) {
    written += writeSync(fd, buffer, written, sizeBytes - written, position + written);
  }
}
