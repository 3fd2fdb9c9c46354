/** One queue on disk: segments, oldest first. Records are added to the last one and taken from the first one. */
import { join } from 'node:path';

import type { StoredRecord } from './record.ts';
import { headerBytes, type QueueName } from './segment-header.ts';
import { Segment } from './segment.ts';

/** Observes the files, to count bytes and to know what needs a sync. */
export interface LogObserver {
  /** The size changed by this many bytes, which may be negative. */
  resized(byBytes: number): void;
  /** The file needs a sync; if it is new, its directory does, too. */
  written(segment: Segment, isNew: boolean): void;
  /** Called with how many records could not be read again; 0 if only others in the file are damaged. */
  damaged(lostRecords: number): void;
}

export interface QueueLogOptions {
  readonly directory: string;
  /** Prefix of the names of its files: 32 hexadecimal digits. */
  readonly key: string;
  /** Suffix of the names of its files: `.alerts`. */
  readonly suffix: string;
  readonly segmentBytes: number;
  readonly observer: LogObserver;
}

/** A file whose records are all done is removed once it is this long. A shorter one is used further: many small files help nothing. */
const RECYCLE_BYTES = 64 * 1024;
const SEQUENCE_DIGITS = 12;
const stem = /^([0-9a-f]{32})-(\d{12})$/;
/** Errors that pass, or that other files would have too: no reason to set a file aside. */
const passing: ReadonlySet<string | undefined> = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EACCES', 'EPERM']);

/** The parts of a queue file's name; undefined for any other file. */
export function parseFileName(
  name: string,
  suffix: string,
): { readonly key: string; readonly sequence: number } | undefined {
  const match = name.endsWith(suffix) ? stem.exec(name.slice(0, -suffix.length)) : null;
  return match === null ? undefined : { key: match[1] ?? '', sequence: Number(match[2]) };
}

/** The owner closes it. */
export class QueueLog {
  readonly name: QueueName;
  readonly #options: QueueLogOptions;
  readonly #headerBytes: number;
  readonly #segments: Segment[] = [];
  /** The last segment, if this process made it: nothing is added to segments of earlier processes. */
  #writing: Segment | undefined;
  #nextSequence = 1;
  #sizeBytes = 0;
  #depth = 0;

  constructor(name: QueueName, options: QueueLogOptions) {
    this.name = name;
    this.#options = options;
    this.#headerBytes = headerBytes(name);
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  get depth(): number {
    return this.#depth;
  }

  /** Takes over a file of an earlier process. Call it in the order of the sequence numbers. */
  adopt(segment: Segment, sequence: number): void {
    this.#nextSequence = sequence + 1;
    this.#segments.push(segment);
    this.#resize(segment.sizeBytes);
    this.#depth += segment.depth;
    if (segment.damaged) this.#options.observer.damaged(0);
    if (this.#segments.length > 1) segment.close();
    this.#dropFinished();
  }

  /** Upper limit of what a record of this size adds to the length of the files. */
  growth(recordBytes: number): number {
    return recordBytes + this.#headerBytes;
  }

  /** @throws {NodeJS.ErrnoException} when the record cannot be written; it is not in the queue then. */
  append(record: Buffer, sizeBytes: number): void {
    const full = this.#writing;
    if (full !== undefined && full.sizeBytes >= this.#options.segmentBytes) {
      full.seal();
      this.#writing = undefined;
      if (full !== this.#segments[0]) full.close();
      this.#dropFinished();
    }
    const isNew = this.#writing === undefined;
    const segment = this.#writing ?? this.#addSegment();
    const before = segment.sizeBytes;
    segment.append(record, sizeBytes);
    this.#resize(segment.sizeBytes - before);
    this.#depth++;
    this.#options.observer.written(segment, isNew);
  }

  /**
   * The oldest record, until `pass`; undefined for an empty queue.
   *
   * @throws as {@link heads}
   */
  head(): StoredRecord | undefined {
    return this.heads(1, 0)[0];
  }

  /**
   * The oldest records, until `pass`: all from one file, so they may be fewer than requested and available.
   * Empty only for an empty queue. Unreadable records are skipped, set aside and reported.
   *
   * @param maxBytes - Total length of all lines; the first may be longer.
   * @throws {NodeJS.ErrnoException} when they cannot be read now, but perhaps later.
   */
  heads(maxRecords: number, maxBytes: number): readonly StoredRecord[] {
    for (let first; (first = this.#segments[0]) !== undefined;) {
      const records = this.#headsOf(first, maxRecords, maxBytes);
      if (records.length > 0) return records;
      if (first === this.#writing && first.depth === 0) return [];
      this.#dropFirst();
    }
    return [];
  }

  /**
   * Marks the `count` oldest records as done; they must have been read.
   *
   * @returns false when the mark could not be written to the file: another process would read them again.
   */
  pass(count = 1): boolean {
    const first = this.#segments[0];
    if (first === undefined) return false;
    const writtenDown = first.pass(count);
    this.#depth -= count;
    this.#dropFinished();
    return writtenDown;
  }

  /** Closes the files; waiting records stay on disk. */
  close(): void {
    if (this.#depth === 0) {
      while (this.#segments.length > 0) this.#dropFirst();
      return;
    }
    this.#writing?.seal();
    for (const segment of this.#segments) segment.close();
  }

  #headsOf(segment: Segment, maxRecords: number, maxBytes: number): readonly StoredRecord[] {
    try {
      return segment.heads(maxRecords, maxBytes);
    } catch (error) {
      if (passing.has((error as NodeJS.ErrnoException).code)) throw error;
      return [];
    }
  }

  #dropFinished(): void {
    for (let first; (first = this.#segments[0]) !== undefined && first.depth === 0;) {
      if (first === this.#writing && first.sizeBytes < RECYCLE_BYTES) return;
      this.#dropFirst();
    }
  }

  /** Removes the first file, or sets it aside when something in it was damaged. */
  #dropFirst(): void {
    const first = this.#segments.shift();
    if (first === undefined) return;
    if (first === this.#writing) this.#writing = undefined;
    this.#resize(-first.sizeBytes);
    const lost = first.depth;
    this.#depth -= lost;
    if (lost > 0) this.#options.observer.damaged(lost);
    try {
      if (lost > 0 || first.damaged) first.setAside();
      else first.remove();
    } catch {
      // On a disk that accepts no changes the file stays; the next process sees by its cursor that its records are done.
    }
  }

  #addSegment(): Segment {
    const { directory, key, suffix } = this.#options;
    const file = `${key}-${String(this.#nextSequence++).padStart(SEQUENCE_DIGITS, '0')}${suffix}`;
    const segment = Segment.create(join(directory, file), this.name);
    this.#segments.push(segment);
    this.#writing = segment;
    this.#resize(segment.sizeBytes);
    return segment;
  }

  #resize(byBytes: number): void {
    this.#sizeBytes += byBytes;
    this.#options.observer.resized(byBytes);
  }
}
