/**
 * One file of a queue: a header, then records. It knows its callback, how far it was delivered and, once it is
 * complete, how much is in it; so no other file has to agree with it.
 *
 * | bytes | what                                                                        |
 * | ----- | --------------------------------------------------------------------------- |
 * | 0     | `RAMPALRT`                                                                  |
 * | 8     | CRC-32 of the callback, u32                                                 |
 * | 12    | length of the callback, u32                                                 |
 * | 16    | cursor: u32 offset, u32 records that are done with, u32 CRC-32 of both      |
 * | 28    | seal: u32 offset of the end, u32 records, u32 CRC-32 of both; else zeros    |
 * | 40    | the callback, then the records                                              |
 *
 * A cursor that cannot be read means: from the beginning, which delivers twice and loses nothing. A seal that
 * cannot be read means that the records are counted.
 *
 * @module
 */
import {
  closeSync,
  constants,
  fdatasync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { crc32 } from 'node:zlib';

import { RecordReader, type StoredAlert } from './record.ts';

const MAGIC = Buffer.from('RAMPALRT', 'latin1');
const CALLBACK_CHECKSUM_AT = 8;
const CALLBACK_LENGTH_AT = 12;
const CURSOR_AT = 16;
const SEAL_AT = 28;
const SLOT_BYTES = 12;
const FIXED_BYTES = 40;
/** In UTF-8. */
export const MAX_CALLBACK_BYTES = 4096;

/** What the name of a file that was set aside ends with. */
export const SET_ASIDE_SUFFIX = '.corrupt';

/** Of a file for this callback, before the first record. */
export function headerBytes(callback: string): number {
  return FIXED_BYTES + Buffer.byteLength(callback);
}

/** What was found when a file of an earlier process was opened. */
export interface Recovery {
  readonly segment: Segment;
  /** Bytes after the last whole record: a write that the end of the process or of the machine cut off. */
  readonly tornBytes: number;
}

interface Extent {
  startBytes: number;
  endBytes: number;
  records: number;
  passedBytes: number;
  passedRecords: number;
}

/** Closing is the caller's: `close`, `remove` or `setAside`. */
export class Segment {
  readonly path: string;
  readonly callback: string;
  #extent: Extent;
  #fd: number | undefined;
  #reader: RecordReader | undefined;
  #head: StoredAlert | undefined;
  #headNext = 0;
  #damaged = false;
  #syncing = false;
  #closing = false;
  #gone = false;

  private constructor(path: string, callback: string, fd: number, extent: Extent) {
    this.path = path;
    this.callback = callback;
    this.#fd = fd;
    this.#extent = extent;
  }

  /** @throws {NodeJS.ErrnoException} when the file cannot be made; then there is none. */
  static create(path: string, callback: string): Segment {
    const name = Buffer.from(callback);
    const header = Buffer.alloc(FIXED_BYTES + name.byteLength);
    header.set(MAGIC);
    header.writeUInt32LE(crc32(name), CALLBACK_CHECKSUM_AT);
    header.writeUInt32LE(name.byteLength, CALLBACK_LENGTH_AT);
    header.set(name, FIXED_BYTES);
    const startBytes = header.byteLength;
    writeSlot(header, CURSOR_AT, startBytes, 0);
    const { O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
    const fd = openSync(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
    try {
      writeAll(fd, header, startBytes, 0);
    } catch (error) {
      closeSync(fd);
      rmSync(path, { force: true });
      throw error;
    }
    const extent = {
      startBytes,
      endBytes: startBytes,
      records: 0,
      passedBytes: startBytes,
      passedRecords: 0,
    };
    return new Segment(path, callback, fd, extent);
  }

  /**
   * Opens what an earlier process has left.
   *
   * @returns undefined when the header is damaged: nobody knows whose records these are.
   * @throws {NodeJS.ErrnoException} when the file cannot be read.
   */
  static recover(path: string): Recovery | undefined {
    const fd = openSync(path, constants.O_RDWR | constants.O_NOFOLLOW);
    try {
      const header = readHeader(fd);
      if (header === undefined) {
        closeSync(fd);
        return undefined;
      }
      const { extent, callback, sealed, sizeBytes } = header;
      const segment = new Segment(path, callback, fd, extent);
      const tornBytes = sealed ? 0 : segment.#count(sizeBytes);
      return { segment, tornBytes };
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }

  /** How long the file is. */
  get sizeBytes(): number {
    return this.#extent.endBytes;
  }

  /** Records that are not done with. */
  get depth(): number {
    return this.#extent.records - this.#extent.passedRecords;
  }

  /** Whether damaged bytes were found between records. */
  get damaged(): boolean {
    return this.#damaged;
  }

  /**
   * Adds a record. When this returns it is the kernel's, and the end of this process cannot lose it.
   *
   * @throws {NodeJS.ErrnoException} when it cannot be written; then it is not there.
   */
  append(buffer: Buffer, sizeBytes: number): void {
    const fd = this.#open();
    const { endBytes } = this.#extent;
    try {
      writeAll(fd, buffer, sizeBytes, endBytes);
    } catch (error) {
      try {
        ftruncateSync(fd, endBytes);
      } catch {
        // The next record is written over it, and without one it is a torn end.
      }
      throw error;
    }
    this.#extent.endBytes += sizeBytes;
    this.#extent.records++;
  }

  /**
   * The first record that is not done with; undefined when there is none any more.
   *
   * @throws {NodeJS.ErrnoException} when the file cannot be read.
   */
  head(): StoredAlert | undefined {
    if (this.#head !== undefined) return this.#head;
    const { passedBytes, endBytes } = this.#extent;
    if (passedBytes >= endBytes) return undefined;
    this.#reader ??= new RecordReader(this.#open());
    const found = this.#reader.find(passedBytes, endBytes);
    if (found === undefined || found.at !== passedBytes) this.#damaged = true;
    this.#head = found?.alert;
    this.#headNext = found?.next ?? endBytes;
    return this.#head;
  }

  /**
   * Done with the head.
   *
   * @returns false when that could not be written down: another process would deliver it again.
   */
  pass(): boolean {
    const extent = this.#extent;
    extent.passedBytes = this.#headNext;
    extent.passedRecords++;
    this.#head = undefined;
    return this.#writeSlot(CURSOR_AT, extent.passedBytes, extent.passedRecords);
  }

  /** Nothing is added any more: the next process need not count. */
  seal(): void {
    this.#writeSlot(SEAL_AT, this.#extent.endBytes, this.#extent.records);
  }

  /** What was written reaches the disk. */
  async sync(): Promise<NodeJS.ErrnoException | null> {
    if (this.#gone || this.#syncing) return null;
    const wasClosed = this.#fd === undefined || this.#closing;
    const { promise, resolve } = Promise.withResolvers<NodeJS.ErrnoException | null>();
    try {
      fdatasync(this.#open(), resolve);
    } catch (error) {
      return error as NodeJS.ErrnoException;
    }
    this.#syncing = true;
    this.#closing = wasClosed;
    const error = await promise;
    this.#syncing = false;
    if (this.#closing) this.#closeNow();
    return error;
  }

  /** Until it is needed again. Not under a sync of the thread pool: the number could mean another file by then. */
  close(): void {
    this.#closing = true;
    this.#reader = undefined;
    if (!this.#syncing) this.#closeNow();
  }

  remove(): void {
    this.#gone = true;
    this.close();
    rmSync(this.path, { force: true });
  }

  /** Keeps a damaged file for people, out of the way. */
  setAside(): void {
    this.#gone = true;
    this.close();
    setAside(this.path);
  }

  #open(): number {
    this.#closing = false;
    this.#fd ??= openSync(this.path, constants.O_RDWR | constants.O_NOFOLLOW);
    return this.#fd;
  }

  #closeNow(): void {
    this.#closing = false;
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  #writeSlot(at: number, offset: number, records: number): boolean {
    const slot = Buffer.allocUnsafe(SLOT_BYTES);
    writeSlot(slot, 0, offset, records);
    try {
      writeAll(this.#open(), slot, SLOT_BYTES, at);
      return true;
    } catch {
      return false;
    }
  }

  /** Counts the records after the cursor and cuts off a torn end, whose size is returned. */
  #count(sizeBytes: number): number {
    const extent = this.#extent;
    const reader = new RecordReader(this.#open());
    let endBytes = extent.passedBytes;
    for (let found; (found = reader.find(endBytes, sizeBytes)) !== undefined; endBytes = found.next) {
      if (found.at !== endBytes) this.#damaged = true;
      extent.records++;
    }
    extent.endBytes = endBytes;
    if (endBytes < sizeBytes) {
      try {
        ftruncateSync(this.#open(), endBytes);
      } catch {
        // It is not read either.
      }
    }
    return sizeBytes - endBytes;
  }
}

export function setAside(path: string): void {
  renameSync(path, `${path}${SET_ASIDE_SUFFIX}`);
}

interface Header {
  readonly callback: string;
  readonly extent: Extent;
  readonly sealed: boolean;
  readonly sizeBytes: number;
}

function readHeader(fd: number): Header | undefined {
  const header = Buffer.alloc(FIXED_BYTES + MAX_CALLBACK_BYTES);
  const readBytes = readSync(fd, header, 0, header.byteLength, 0);
  if (readBytes < FIXED_BYTES || !header.subarray(0, MAGIC.byteLength).equals(MAGIC)) return undefined;
  const startBytes = FIXED_BYTES + header.readUInt32LE(CALLBACK_LENGTH_AT);
  if (startBytes > readBytes) return undefined;
  const name = header.subarray(FIXED_BYTES, startBytes);
  if (crc32(name) !== header.readUInt32LE(CALLBACK_CHECKSUM_AT)) return undefined;
  const { size } = fstatSync(fd);
  const cursor = readSlot(header, CURSOR_AT);
  const seal = readSlot(header, SEAL_AT);
  // After a loss of power the cursor may have reached the disk and the records not.
  const passedBytes = Math.min(Math.max(cursor?.offset ?? 0, startBytes), size);
  const passedRecords = cursor?.records ?? 0;
  const sealed = seal !== undefined && seal.offset <= size && seal.records >= passedRecords;
  const end = sealed ? { endBytes: seal.offset, records: seal.records } : undefined;
  const extent: Extent = {
    startBytes,
    passedBytes,
    passedRecords,
    endBytes: end?.endBytes ?? passedBytes,
    records: end?.records ?? passedRecords,
  };
  return { callback: name.toString(), extent, sealed, sizeBytes: size };
}

function writeSlot(buffer: Buffer, at: number, offset: number, records: number): void {
  buffer.writeUInt32LE(offset, at);
  buffer.writeUInt32LE(records, at + 4);
  buffer.writeUInt32LE(crc32(buffer.subarray(at, at + 8)), at + 8);
}

function readSlot(
  buffer: Buffer,
  at: number,
): { readonly offset: number; readonly records: number } | undefined {
  const offset = buffer.readUInt32LE(at);
  if (offset === 0 || crc32(buffer.subarray(at, at + 8)) !== buffer.readUInt32LE(at + 8)) return undefined;
  return { offset, records: buffer.readUInt32LE(at + 4) };
}

function writeAll(fd: number, buffer: Buffer, sizeBytes: number, position: number): void {
  for (let written = 0; written < sizeBytes;) {
    written += writeSync(fd, buffer, written, sizeBytes - written, position + written);
  }
}
