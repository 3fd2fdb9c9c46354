/**
 * The alerts of one callback, with one Secret or none, on disk: segments, oldest first. Alerts are added to the last one
 * and taken from the first one.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';

import type { StoredAlert } from './record.ts';
import { headerBytes } from './segment-header.ts';
import { Segment } from './segment.ts';

/** What happens to the files, for those who count bytes and sync. */
export interface LogObserver {
  /** Takes the difference, also a negative one. */
  resized(byBytes: number): void;
  /** There is something to sync: in the file, or for a new one in the directory, too. */
  written(segment: Segment, isNew: boolean): void;
  /** This many alerts could not be read again; 0 when only their neighbours are damaged. */
  damaged(lostAlerts: number): void;
}

/** A file in which all is delivered is removed once it is this long: there is no use for many small ones. */
const RECYCLE_BYTES = 64 * 1024;
const SEQUENCE_DIGITS = 12;
const fileName = /^([0-9a-f]{32})-(\d{12})\.alerts$/;
/** There will be others of this kind, or they pass: no reason to give up a file. */
const passing: ReadonlySet<string | undefined> = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EACCES', 'EPERM']);

/**
 * What the files of a queue are called by: URLs have characters that file names have not. With a Secret it is another queue:
 * what belongs to a policy without it must never be sent with it.
 */
export function keyOf(callback: string, secret = ''): string {
  // No URL begins with a bracket, so no two queues are hashed from the same text.
  const name = secret === '' ? callback : JSON.stringify([callback, secret]);
  return createHash('sha256').update(name).digest('hex').slice(0, 32);
}

/** The parts of a file's name, or undefined for another file. */
export function parseFileName(name: string): { readonly key: string; readonly sequence: number } | undefined {
  const match = fileName.exec(name);
  return match === null ? undefined : { key: match[1] ?? '', sequence: Number(match[2]) };
}

/** The owner closes it. */
export class CallbackLog {
  readonly callback: string;
  /** `namespace/name`, or empty. */
  readonly secret: string;
  readonly key: string;
  readonly #headerBytes: number;
  readonly #directory: string;
  readonly #segmentBytes: number;
  readonly #observer: LogObserver;
  readonly #segments: Segment[] = [];
  /** The last segment, if this process made it; to those of earlier ones nothing is added. */
  #writing: Segment | undefined;
  #nextSequence = 1;
  #sizeBytes = 0;
  #depth = 0;

  constructor(
    callback: string,
    secret: string,
    options: { readonly directory: string; readonly segmentBytes: number; readonly observer: LogObserver },
  ) {
    this.callback = callback;
    this.secret = secret;
    this.key = keyOf(callback, secret);
    this.#headerBytes = headerBytes(callback, secret);
    this.#directory = options.directory;
    this.#segmentBytes = options.segmentBytes;
    this.#observer = options.observer;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  get depth(): number {
    return this.#depth;
  }

  /** Takes over a file of an earlier process; to be called in the order of the sequence. */
  adopt(segment: Segment, sequence: number): void {
    this.#nextSequence = sequence + 1;
    this.#segments.push(segment);
    this.#resize(segment.sizeBytes);
    this.#depth += segment.depth;
    if (segment.damaged) this.#observer.damaged(0);
    if (this.#segments.length > 1) segment.close();
    this.#dropFinished();
  }

  /** How much longer the files get by a record of this size, at most. */
  growth(recordBytes: number): number {
    return recordBytes + this.#headerBytes;
  }

  /** @throws {NodeJS.ErrnoException} when it cannot be written; then it is not there. */
  append(record: Buffer, sizeBytes: number): void {
    const full = this.#writing;
    if (full !== undefined && full.sizeBytes >= this.#segmentBytes) {
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
    this.#observer.written(segment, isNew);
  }

  /**
   * The oldest alert, until `pass`. What cannot be read is passed over, set aside and told.
   *
   * @throws {NodeJS.ErrnoException} when it cannot be read now, but perhaps later.
   */
  head(): StoredAlert | undefined {
    for (let first; (first = this.#segments[0]) !== undefined;) {
      const alert = this.#headOf(first);
      if (alert !== undefined) return alert;
      if (first === this.#writing && first.depth === 0) return undefined;
      this.#dropFirst();
    }
    return undefined;
  }

  /** Done with the head, which has to have been read. */
  pass(): boolean {
    const first = this.#segments[0];
    if (first === undefined) return false;
    const writtenDown = first.pass();
    this.#depth--;
    this.#dropFinished();
    return writtenDown;
  }

  /** Lets go of the files; what waits stays on disk. */
  close(): void {
    if (this.#depth === 0) {
      while (this.#segments.length > 0) this.#dropFirst();
      return;
    }
    this.#writing?.seal();
    for (const segment of this.#segments) segment.close();
  }

  #headOf(segment: Segment): StoredAlert | undefined {
    try {
      return segment.head();
    } catch (error) {
      if (passing.has((error as NodeJS.ErrnoException).code)) throw error;
      return undefined;
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
    if (lost > 0) this.#observer.damaged(lost);
    try {
      if (lost > 0 || first.damaged) first.setAside();
      else first.remove();
    } catch {
      // On a disk that takes no changes it stays, and the next process sees by its cursor that it is done with.
    }
  }

  #addSegment(): Segment {
    const name = `${this.key}-${String(this.#nextSequence++).padStart(SEQUENCE_DIGITS, '0')}.alerts`;
    const segment = Segment.create(join(this.#directory, name), this.callback, this.secret);
    this.#segments.push(segment);
    this.#writing = segment;
    this.#resize(segment.sizeBytes);
    return segment;
  }

  #resize(byBytes: number): void {
    this.#sizeBytes += byBytes;
    this.#observer.resized(byBytes);
  }
}
