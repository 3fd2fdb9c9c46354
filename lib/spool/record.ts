/**
 * One record of a queue file: a header with a checksum, the id, the line.
 *
 * | bytes | what                                                         |
 * | ----- | ------------------------------------------------------------ |
 * | 0     | a mark that starts with a zero byte, which no JSON text has   |
 * | 4     | CRC-32 of all that follows                                    |
 * | 8     | length of the line, u32                                       |
 * | 12    | length of the id, u16, and two zero bytes                     |
 * | 16    | when it was accepted, f64, milliseconds since 1970            |
 * | 24    | the id, then the line                                         |
 *
 * Reading resumes at the next mark after damaged bytes. Because JSON escapes control characters, the
 * arguments of a process cannot put a mark into a file.
 */
import { readSync } from 'node:fs';
import { crc32 } from 'node:zlib';

export const RECORD_HEADER_BYTES = 24;
export const MAX_ID_BYTES = 128;
/** Limit of a line. Most lines have about 1 kB. */
const MAX_LINE_BYTES = 1024 * 1024;

const MARK = Buffer.from([0x00, 0x52, 0x51, 0x01]);
const MARK_NUMBER = MARK.readUInt32LE(0);
const CHECKSUM_AT = 4;
const LINE_LENGTH_AT = 8;
const ID_LENGTH_AT = 12;
const ACCEPTED_AT = 16;
const READ_BYTES = 32 * 1024;
const SCRATCH_BYTES = 64 * 1024;
/** UTF-8 takes at most three bytes for a UTF-16 unit. */
const MAX_BYTES_PER_UNIT = 3;

export interface StoredRecord {
  readonly id: string;
  /** A copy of the bytes. */
  readonly line: Buffer;
  /** Milliseconds since 1970. */
  readonly acceptedMs: number;
}

export interface EncodedRecord {
  /** Valid until the next call, which reuses it. */
  readonly buffer: Buffer;
  readonly sizeBytes: number;
}

export class RecordEncoder {
  readonly #scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

  /** @returns undefined for a line above {@link MAX_LINE_BYTES}. The id has to be ASCII of up to {@link MAX_ID_BYTES}. */
  encode(id: string, line: string | Uint8Array, acceptedMs: number): EncodedRecord | undefined {
    const lineAt = RECORD_HEADER_BYTES + id.length;
    const isText = typeof line === 'string';
    let room = isText ? line.length * MAX_BYTES_PER_UNIT : line.byteLength;
    if (isText && lineAt + room > SCRATCH_BYTES) room = Buffer.byteLength(line);
    if (room > MAX_LINE_BYTES) return undefined;
    // Longer records are rare, and get a buffer of their own.
    const buffer = lineAt + room <= SCRATCH_BYTES ? this.#scratch : Buffer.allocUnsafe(lineAt + room);
    let lineBytes: number;
    if (isText) {
      lineBytes = buffer.write(line, lineAt, 'utf8');
    } else {
      buffer.set(line, lineAt);
      lineBytes = line.byteLength;
    }
    buffer.write(id, RECORD_HEADER_BYTES, 'latin1');
    buffer.writeUInt32LE(MARK_NUMBER, 0);
    buffer.writeUInt32LE(lineBytes, LINE_LENGTH_AT);
    buffer.writeUInt32LE(id.length, ID_LENGTH_AT);
    buffer.writeDoubleLE(acceptedMs, ACCEPTED_AT);
    const sizeBytes = lineAt + lineBytes;
    buffer.writeUInt32LE(crc32(buffer.subarray(LINE_LENGTH_AT, sizeBytes)), CHECKSUM_AT);
    return { buffer, sizeBytes };
  }
}

export interface FoundRecord {
  readonly record: StoredRecord;
  /** Where the record begins; beyond the requested position if damaged bytes precede it. */
  readonly at: number;
  /** Where the next record begins. */
  readonly next: number;
}

/**
 * The first complete record at or after `offset` that ends by `end`; undefined if there are no more.
 *
 * @throws {NodeJS.ErrnoException} when the file cannot be read.
 */
export type FindRecord = (offset: number, end: number) => FoundRecord | undefined;

/** Finds records in a file, a window of it in memory. */
export function recordsIn(fd: number): FindRecord {
  let kept: Buffer = Buffer.alloc(0);
  let keptAt = 0;

  function recordAt(at: number, end: number): FoundRecord | undefined {
    const header = bytesAt(at, RECORD_HEADER_BYTES, end);
    if (header === undefined || header.readUInt32LE(0) !== MARK_NUMBER) return undefined;
    const lineBytes = header.readUInt32LE(LINE_LENGTH_AT);
    const idBytes = header.readUInt32LE(ID_LENGTH_AT);
    if (lineBytes > MAX_LINE_BYTES || idBytes > MAX_ID_BYTES) return undefined;
    const checksum = header.readUInt32LE(CHECKSUM_AT);
    const acceptedMs = header.readDoubleLE(ACCEPTED_AT);
    const lineAt = RECORD_HEADER_BYTES + idBytes;
    const bytes = bytesAt(at, lineAt + lineBytes, end);
    if (bytes === undefined || crc32(bytes.subarray(LINE_LENGTH_AT)) !== checksum) return undefined;
    const id = bytes.toString('latin1', RECORD_HEADER_BYTES, lineAt);
    const line = Buffer.from(bytes.subarray(lineAt));
    return { record: { id, line, acceptedMs }, at, next: at + bytes.byteLength };
  }

  function nextMark(from: number, end: number): number | undefined {
    for (let at = from; at + RECORD_HEADER_BYTES <= end;) {
      const bytes = bytesAt(at, Math.min(READ_BYTES, end - at), end);
      if (bytes === undefined) return undefined;
      const index = bytes.indexOf(MARK);
      if (index >= 0) return at + index;
      // The mark may cross the border of two windows.
      at += bytes.byteLength - MARK.byteLength + 1;
    }
    return undefined;
  }

  /** A view that holds until the next call; undefined if `end`, or the file's own end, comes before theirs. */
  function bytesAt(at: number, sizeBytes: number, end: number): Buffer | undefined {
    if (at + sizeBytes > end) return undefined;
    const start = at - keptAt;
    if (start >= 0 && start + sizeBytes <= kept.byteLength) {
      return kept.subarray(start, start + sizeBytes);
    }
    const window = Buffer.allocUnsafe(Math.max(sizeBytes, Math.min(READ_BYTES, end - at)));
    let filled = 0;
    while (filled < window.byteLength) {
      const readBytes = readSync(fd, window, filled, window.byteLength - filled, at + filled);
      if (readBytes === 0) break;
      filled += readBytes;
    }
    kept = window.subarray(0, filled);
    keptAt = at;
    return filled < sizeBytes ? undefined : window.subarray(0, sizeBytes);
  }

  return (offset, end) => {
    for (let at = offset; at + RECORD_HEADER_BYTES <= end;) {
      const found = recordAt(at, end);
      if (found !== undefined) return found;
      const mark = nextMark(at + 1, end);
      if (mark === undefined) return undefined;
      at = mark;
    }
    return undefined;
  };
}
