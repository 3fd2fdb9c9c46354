/** One file of a queue: a header (segment-header.ts), then records (record.ts). */
import { closeSync, constants, fdatasync, ftruncateSync, openSync, renameSync, rmSync } from 'node:fs';

import { type FindRecord, type FoundRecord, recordsIn, type StoredRecord } from './record.ts';
import {
  CURSOR_AT,
  encodeHeader,
  encodeSlot,
  type Extent,
  type QueueName,
  readHeader,
  SEAL_AT,
  writeAll,
} from './segment-header.ts';

/** Suffix of files that were set aside. */
export const SET_ASIDE_SUFFIX = '.corrupt';

/** Result of opening a file of an earlier process. */
export interface Recovery {
  readonly segment: Segment;
  /** Bytes after the last whole record: a write that the end of the process or of the machine cut off. */
  readonly tornBytes: number;
}

type Head = Pick<FoundRecord, 'record' | 'next'>;

/** The caller ends it by `close`, `remove` or `setAside`. */
export class Segment {
  readonly path: string;
  readonly name: QueueName;
  #extent: Extent;
  #fd: number | undefined;
  #find: FindRecord | undefined;
  /** The first pending records, as far as they were read. */
  #heads: Head[] = [];
  #damaged = false;
  #syncing = false;
  #closing = false;
  #gone = false;

  private constructor(path: string, name: QueueName, fd: number, extent: Extent) {
    this.path = path;
    this.name = name;
    this.#fd = fd;
    this.#extent = extent;
  }

  /** @throws {NodeJS.ErrnoException} when the file cannot be created; no file is left behind then. */
  static create(path: string, name: QueueName): Segment {
    const header = encodeHeader(name);
    const startBytes = header.byteLength;
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
    return new Segment(path, name, fd, extent);
  }

  /**
   * Opens a file of an earlier process.
   *
   * @returns undefined when the header is damaged: the queue of its records is unknown.
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
      const { extent, name, sealed, sizeBytes } = header;
      const segment = new Segment(path, name, fd, extent);
      const tornBytes = sealed ? 0 : segment.#count(sizeBytes);
      return { segment, tornBytes };
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }

  get sizeBytes(): number {
    return this.#extent.endBytes;
  }

  /** Number of records that are not done. */
  get depth(): number {
    return this.#extent.records - this.#extent.passedRecords;
  }

  /** Whether damaged bytes were found between records. */
  get damaged(): boolean {
    return this.#damaged;
  }

  /**
   * Adds a record. When this returns, the kernel has it, and the end of this process cannot lose it.
   *
   * @throws {NodeJS.ErrnoException} when the record cannot be written; it is not in the file then.
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
   * The first pending records: as many as requested and available, together no longer than `maxBytes`, but at
   * least one. Empty when all are done.
   *
   * @throws {NodeJS.ErrnoException} when the file cannot be read.
   */
  heads(maxRecords: number, maxBytes: number): readonly StoredRecord[] {
    const { endBytes, passedBytes } = this.#extent;
    const heads = this.#heads;
    let count = 0;
    for (let sizeBytes = 0; count < maxRecords; count++) {
      const next = heads[count - 1]?.next ?? passedBytes;
      if (count === heads.length) {
        const head = next < endBytes ? this.#read(next, endBytes) : undefined;
        if (head === undefined) break;
        heads.push(head);
      }
      sizeBytes += heads[count]?.record.line.byteLength ?? 0;
      if (count > 0 && sizeBytes > maxBytes) break;
    }
    return heads.slice(0, count).map(({ record }) => record);
  }

  /**
   * Marks the first `count` of {@link heads} as done.
   *
   * @returns false when the mark could not be written to the file: another process would read them again.
   */
  pass(count: number): boolean {
    const extent = this.#extent;
    extent.passedBytes = this.#heads[count - 1]?.next ?? extent.passedBytes;
    extent.passedRecords += count;
    this.#heads = this.#heads.slice(count);
    return this.#writeSlot(CURSOR_AT, extent.passedBytes, extent.passedRecords);
  }

  /** Marks the file as complete, so that the next process need not count its records. */
  seal(): void {
    this.#writeSlot(SEAL_AT, this.#extent.endBytes, this.#extent.records);
  }

  /** Syncs written data to the disk. @returns the error, or null */
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

  /** Closes the file until it is needed again, but not during a sync in the thread pool: its descriptor could become another file's. */
  close(): void {
    this.#closing = true;
    this.#find = undefined;
    if (!this.#syncing) this.#closeNow();
  }

  remove(): void {
    this.#gone = true;
    this.close();
    rmSync(this.path, { force: true });
  }

  /** Renames a damaged file, so that it is kept for people but no longer read. */
  setAside(): void {
    this.#gone = true;
    this.close();
    setAside(this.path);
  }

  #read(at: number, endBytes: number): Head | undefined {
    this.#find ??= recordsIn(this.#open());
    const found = this.#find(at, endBytes);
    if (found === undefined || found.at !== at) this.#damaged = true;
    return found;
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
    try {
      const slot = encodeSlot(offset, records);
      writeAll(this.#open(), slot, slot.byteLength, at);
      return true;
    } catch {
      return false;
    }
  }

  /** Counts the records after the cursor and cuts off a torn end, whose size is returned. */
  #count(sizeBytes: number): number {
    const extent = this.#extent;
    const find = recordsIn(this.#open());
    let endBytes = extent.passedBytes;
    for (let found; (found = find(endBytes, sizeBytes)) !== undefined; endBytes = found.next) {
      if (found.at !== endBytes) this.#damaged = true;
      extent.records++;
    }
    extent.endBytes = endBytes;
    if (endBytes < sizeBytes) {
      try {
        ftruncateSync(this.#open(), endBytes);
      } catch {
        // A torn end that cannot be cut off is not read either.
      }
    }
    return sizeBytes - endBytes;
  }
}

export function setAside(path: string): void {
  renameSync(path, `${path}${SET_ASIDE_SUFFIX}`);
}
