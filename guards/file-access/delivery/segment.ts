/** One file of a queue: a header (segment-header.ts), then records (record.ts). */
import { closeSync, constants, fdatasync, ftruncateSync, openSync, renameSync, rmSync } from 'node:fs';

import { type FindRecord, recordsIn, type StoredAlert } from './record.ts';
import {
  CURSOR_AT,
  encodeHeader,
  encodeSlot,
  type Extent,
  readHeader,
  SEAL_AT,
  writeAll,
} from './segment-header.ts';

/** What the name of a file that was set aside ends with. */
export const SET_ASIDE_SUFFIX = '.corrupt';

/** What was found when a file of an earlier process was opened. */
export interface Recovery {
  readonly segment: Segment;
  /** Bytes after the last whole record: a write that the end of the process or of the machine cut off. */
  readonly tornBytes: number;
}

/** Closing is the caller's: `close`, `remove` or `setAside`. */
export class Segment {
  readonly path: string;
  readonly callback: string;
  /** `namespace/name`, or empty. */
  readonly secret: string;
  #extent: Extent;
  #fd: number | undefined;
  #find: FindRecord | undefined;
  #head: StoredAlert | undefined;
  #headNext = 0;
  #damaged = false;
  #syncing = false;
  #closing = false;
  #gone = false;

  private constructor(path: string, callback: string, secret: string, fd: number, extent: Extent) {
    this.path = path;
    this.callback = callback;
    this.secret = secret;
    this.#fd = fd;
    this.#extent = extent;
  }

  /** @throws {NodeJS.ErrnoException} when the file cannot be made; then there is none. */
  static create(path: string, callback: string, secret: string): Segment {
    const header = encodeHeader(callback, secret);
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
    return new Segment(path, callback, secret, fd, extent);
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
      const { extent, callback, secret, sealed, sizeBytes } = header;
      const segment = new Segment(path, callback, secret, fd, extent);
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
    this.#find ??= recordsIn(this.#open());
    const found = this.#find(passedBytes, endBytes);
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
    this.#find = undefined;
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
        // It is not read either.
      }
    }
    return sizeBytes - endBytes;
  }
}

export function setAside(path: string): void {
  renameSync(path, `${path}${SET_ASIDE_SUFFIX}`);
}
