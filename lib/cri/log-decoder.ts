/**
 * Decodes the log files that runtimes write for a container. A record is a line of the file:
 *
 *     2016-10-06T00:17:09.669794202Z stdout P a part of a line, the next part is in a later record of the stream
 *     2016-10-06T00:17:09.669794203Z stdout F all of a line, or its end
 *
 * (design-proposals-archive, node/kubelet-cri-logging.md; tags are separated by `:`, the first one counts.)
 */

export interface LogTextOptions {
  /** Only lines that began at this time or later: nanoseconds of Unix time. */
  readonly sinceNs?: bigint | undefined;
  /** Whether each line begins with its time, with nine fractional digits. */
  readonly timestamps?: boolean | undefined;
}

type Stream = 'stderr' | 'stdout';

const [SPACE, NEWLINE] = [0x20, 0x0a];
const newline = Buffer.from('\n');
const headerPattern =
  /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) (stdout|stderr) ([^ ]*) $/;
/** The longest time and stream name take 46 bytes; the rest is for tags. */
export const MAX_HEADER_BYTES = 256;
/** Limit of the lines that wait for the end of a line of the other stream. */
const MAX_WAITING_BYTES = 256 * 1024;

/** Number of bytes before the content of a record. `undefined`: more bytes are needed; 0: this is not a record. */
export function headerLength(bytes: Uint8Array): number | undefined {
  let at = -1;
  for (let spaces = 0; spaces < 3; spaces++) {
    at = bytes.indexOf(SPACE, at + 1);
    if (at === -1 || at >= MAX_HEADER_BYTES) {
      return bytes.length >= MAX_HEADER_BYTES || bytes.includes(NEWLINE) ? 0 : undefined;
    }
  }
  const end = bytes.indexOf(NEWLINE);
  return end !== -1 && end < at ? 0 : at + 1;
}

interface RecordHeader {
  readonly second: string;
  readonly fraction: string;
  readonly zone: string;
  readonly stream: Stream;
  /** Whether the line continues in another record of the stream. */
  readonly isPartial: boolean;
}

/** @param text of the length given by {@link headerLength}. @returns `undefined` if it is not a header. */
export function parseHeader(text: string): RecordHeader | undefined {
  const match = headerPattern.exec(text);
  if (match === null) return undefined;
  const [, second = '', fraction = '', zone = '', stream, tags = ''] = match;
  const isPartial = tags === 'P' || tags.startsWith('P:');
  return { second, fraction, zone, stream: stream as Stream, isPartial };
}

/**
 * Takes the bytes of a file in portions of any size, and returns the text of the records. Lines are not mixed: while a line of
 * one stream is incomplete, those of the other stream wait. The memory is bounded, whatever the file contains.
 */
export class LogDecoder {
  readonly #sinceNs: bigint | undefined;
  readonly #timestamps: boolean;
  /** The beginning of a header whose rest has not come yet. */
  #started: Buffer = Buffer.alloc(0);
  #state: 'content' | 'header' | 'skipped' = 'header';
  #stream: Stream = 'stdout';
  #isPartial = false;
  /** Whether the next record of each stream continues a line. `#shown`: whether that line is shown. */
  readonly #inLine = { stdout: false, stderr: false };
  readonly #shown = { stdout: false, stderr: false };
  #out: Uint8Array[] = [];
  /** The stream whose line has begun in the text but not ended. */
  #open: Stream | undefined;
  /** Lines of the other stream that wait. */
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #waitingIsOpen = false;
  /** Number of lines of the file that are not records and were omitted. */
  badRecords = 0;

  constructor({ sinceNs, timestamps = false }: LogTextOptions = {}) {
    this.#sinceNs = sinceNs;
    this.#timestamps = timestamps;
  }

  /** Whether lines wait for the end of another one. */
  get isWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  /** Decodes bytes, which must not change before `take` has been called. */
  push(bytes: Buffer): void {
    for (let at = 0; at < bytes.length;) {
      if (this.#state === 'header') {
        at = this.#readHeader(bytes, at);
        continue;
      }
      const end = bytes.indexOf(NEWLINE, at);
      if (this.#state === 'content') this.#content(bytes, at, end);
      if (end === -1) return;
      this.#state = 'header';
      at = end + 1;
    }
  }

  /** The text since the last call. */
  take(): Buffer {
    const text = Buffer.concat(this.#out);
    this.#out = [];
    return text;
  }

  /** Ends the open line if other lines wait for it. */
  settle(): void {
    if (this.#waiting.length === 0) return;
    this.#out.push(newline);
    this.#release();
  }

  /** Call at the end of a file; another file may follow. A truncated record is not completed. */
  endFile(): void {
    if (this.#started.length > 0) this.badRecords++;
    this.#started = Buffer.alloc(0);
    this.#state = 'header';
    this.settle();
  }

  /** @returns the index at which the record's content, or the next record, begins. */
  #readHeader(bytes: Buffer, from: number): number {
    const known = this.#started.length;
    const here = bytes.subarray(from, from + MAX_HEADER_BYTES - known);
    const all = known === 0 ? here : Buffer.concat([this.#started, here]);
    const length = headerLength(all);
    if (length === undefined) {
      // Copied, because the caller may reuse its buffer.
      this.#started = Buffer.from(all);
      return from + here.length;
    }
    this.#started = Buffer.alloc(0);
    const header = length === 0 ? undefined : parseHeader(all.toString('latin1', 0, length));
    if (header !== undefined) {
      this.#begin(header);
      return from + length - known;
    }
    this.badRecords++;
    this.#state = 'skipped';
    return from;
  }

  #begin(header: RecordHeader): void {
    const { stream, isPartial } = header;
    this.#state = 'content';
    this.#stream = stream;
    this.#isPartial = isPartial;
    if (!this.#inLine[stream]) {
      // The time of a line's first record determines whether the whole line is shown.
      this.#shown[stream] = this.#sinceNs === undefined || timeNs(header) >= this.#sinceNs;
      if (this.#timestamps && this.#shown[stream]) {
        const { second, fraction, zone } = header;
        this.#give(Buffer.from(`${second}.${fraction.padEnd(9, '0')}${zone} `, 'latin1'), false);
      }
    }
    this.#inLine[stream] = isPartial;
  }

  /** @param end index of the newline at the record's end, -1 if it has not come yet. */
  #content(bytes: Buffer, from: number, end: number): void {
    if (!this.#shown[this.#stream]) return;
    const isEnd = end !== -1 && !this.#isPartial;
    const to = end === -1 ? bytes.length : isEnd ? end + 1 : end;
    if (to > from) this.#give(bytes.subarray(from, to), isEnd);
  }

  #give(bytes: Uint8Array, endsLine: boolean): void {
    const stream = this.#stream;
    if (this.#open === undefined || this.#open === stream) {
      this.#out.push(bytes);
      this.#open = endsLine ? undefined : stream;
      if (endsLine && this.#waiting.length > 0) this.#release();
      return;
    }
    this.#waiting.push(Buffer.from(bytes));
    this.#waitingBytes += bytes.length;
    this.#waitingIsOpen = !endsLine;
    if (this.#waitingBytes > MAX_WAITING_BYTES) this.settle();
  }

  #release(): void {
    const before = this.#open ?? this.#stream;
    for (const bytes of this.#waiting) this.#out.push(bytes);
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#open = this.#waitingIsOpen ? (before === 'stdout' ? 'stderr' : 'stdout') : undefined;
  }
}

function timeNs({ second, fraction, zone }: RecordHeader): bigint {
  const ms = Date.parse(`${second}${zone}`);
  // `2016-13-40T...` has the form of a time, but is invalid.
  return Number.isNaN(ms) ? 0n : BigInt(ms) * 1_000_000n + BigInt(fraction.padEnd(9, '0'));
}
