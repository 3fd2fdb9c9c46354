/** Writes whole lines to a descriptor or stream whose reader may be slow, stopped or gone. */
import type { Writable } from 'node:stream';

import { type ByteSink, descriptorSink, streamSink } from './byte-sink.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import { type Chunk, LineSpool } from './line-spool.ts';

interface LineWriterOptions {
  /**
   * How much may wait for a slow reader, in bytes; further lines are dropped and counted. Default 64 MiB.
   * Text beyond ASCII is counted in full only once it is encoded, so up to 16 KiB more may be held.
   */
  readonly spoolBytes?: number;
  /** How long disposing waits for the reader to take what is spooled. Default 2000. */
  readonly lingerMs?: number;
  /** Name of the output in errors: "stdout". */
  readonly name?: string;
}

/** Why a writer takes no more lines. */
export type LineWriterEnd =
  | { readonly reason: 'disposed' }
  /** The reader has closed its end (EPIPE), as `| head` does: end quietly. */
  | { readonly reason: 'reader-gone' }
  /** The output itself failed: disk full, I/O error. */
  | { readonly reason: 'failed'; readonly error: RampartError };

interface Waiter {
  readonly untilSettled: number;
  resolve(): void;
  reject(reason: unknown): void;
}

const DEFAULT_SPOOL_BYTES = 64 * 1024 * 1024;
const DEFAULT_LINGER_MS = 2000;
/** The first delay after EAGAIN; it doubles each time. Only terminals and streams without their own wake-up need it. */
const FIRST_RETRY_MS = 1;
const LAST_RETRY_MS = 32;
const NEWLINE = 10;
const readerGoneCodes: ReadonlySet<string | undefined> = new Set([
  'EPIPE',
  'ECONNRESET',
  'ERR_STREAM_DESTROYED',
  'ERR_STREAM_WRITE_AFTER_END',
]);

/**
 * Writes lines so that none is interleaved with another or cut, in the order given, never blocking the event
 * loop. Lines that the reader has not taken yet wait in memory up to a limit; past it whole lines are dropped
 * and counted: `written + dropped + waiting` is always the number of lines given.
 *
 * The writer does not own its target. The caller disposes the writer, which waits a bounded time for the
 * reader.
 *
 * @example
 * await using out = new LineWriter(1, { name: 'stdout' });
 * void out.closed.then((end) => { if (end.reason !== 'disposed') stop.abort(); });
 * out.write(encoder.encode(access));
 */
export class LineWriter implements AsyncDisposable {
  /** Settles once, when the writer takes no more lines; never rejects. */
  readonly closed: Promise<LineWriterEnd>;
  readonly #sink: ByteSink;
  readonly #spoolBytes: number;
  readonly #lingerMs: number;
  readonly #name: string;
  readonly #spool = new LineSpool();
  readonly #waiters = new Set<Waiter>();
  readonly #resolveClosed: (end: LineWriterEnd) => void;
  /** How much of the first chunk is written. */
  #offset = 0;
  #accepted = 0;
  /** Accepted lines that are written, or lost at the end. */
  #settled = 0;
  #dropped = 0;
  #busy = false;
  #scheduled = false;
  #disposing = false;
  #retryMs = FIRST_RETRY_MS;
  #retry: NodeJS.Timeout | undefined;
  #end: LineWriterEnd | undefined;
  #lostAtEnd = 0;

  /**
   * @param target A file descriptor, a stream, or a custom sink.
   * @throws {RampartError} `SYSTEM` when a descriptor is not open; `INPUT` for a limit that is not positive.
   */
  constructor(target: number | Writable | ByteSink, options: LineWriterOptions = {}) {
    this.#spoolBytes = options.spoolBytes ?? DEFAULT_SPOOL_BYTES;
    this.#lingerMs = options.lingerMs ?? DEFAULT_LINGER_MS;
    if (!(this.#spoolBytes > 0) || !(this.#lingerMs >= 0)) {
      throw new RampartError(errorCodes.INPUT, {
        what: `spoolBytes ${this.#spoolBytes}, lingerMs ${this.#lingerMs} is not a usable limit`,
      });
    }
    this.#name = options.name ?? (typeof target === 'number' ? `file descriptor ${target}` : 'the output');
    if (typeof target === 'number') this.#sink = descriptorSink(target);
    else this.#sink = 'pipe' in target ? streamSink(target) : target;
    const { promise, resolve } = Promise.withResolvers<LineWriterEnd>();
    this.closed = promise;
    this.#resolveClosed = resolve;
  }

  /** Lines that the target has taken whole. */
  get written(): number {
    return this.#settled - this.#lostAtEnd;
  }

  /** Lines given that never reach the target: the spool was full, or the target failed or was gone. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Bytes that wait for the reader. */
  get spooledBytes(): number {
    return this.#spool.sizeBytes - this.#offset;
  }

  /**
   * Takes one line; the newline is added. The line must not contain one itself.
   *
   * @returns false when the line was dropped (and counted).
   */
  write(line: string): boolean {
    if (
      this.#end !== undefined ||
      this.#disposing ||
      this.#spool.sizeBytes + line.length >= this.#spoolBytes
    ) {
      this.#dropped++;
      return false;
    }
    this.#spool.append(line);
    this.#accepted++;
    if (!this.#busy && !this.#scheduled) {
      // Deferred, so that the other lines of the caller's batch go out in the same write.
      this.#scheduled = true;
      queueMicrotask(() => this.#pump());
    }
    return true;
  }

  /**
   * Resolves when every line taken so far is written; also when the reader has gone, because nothing can be
   * delivered then.
   *
   * @throws {RampartError} `SYSTEM` when the output failed; the signal's reason when it aborts first.
   */
  async flush(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    if (this.#end?.reason === 'failed') throw this.#end.error;
    if (this.#settled >= this.#accepted) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: Waiter = { untilSettled: this.#accepted, resolve, reject };
    const onAbort = (): void => reject(signal?.reason);
    this.#waiters.add(waiter);
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      await promise;
    } finally {
      this.#waiters.delete(waiter);
      signal?.removeEventListener('abort', onAbort);
    }
  }

  /**
   * Takes no more lines, gives the reader `lingerMs` for those that wait, counts the rest as dropped, and
   * releases the target. A failure of the output is reported by {@link closed}, not thrown here.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#disposing) {
      this.#disposing = true;
      const linger = new AbortController();
      const timer = setTimeout(() => linger.abort(), this.#lingerMs);
      await this.flush(linger.signal).catch(() => undefined);
      clearTimeout(timer);
      this.#finish({ reason: 'disposed' });
    }
    await this.closed;
  }

  /** Starts the next write, if there is something and none is under way. */
  #pump(): void {
    this.#scheduled = false;
    if (this.#busy || this.#end !== undefined) return;
    const chunk = this.#spool.first();
    if (chunk === undefined) return;
    this.#busy = true;
    const bytes = chunk.buffer.subarray(this.#offset, chunk.usedBytes);
    this.#sink.write(bytes, (error, writtenBytes) => this.#onWritten(chunk, error, writtenBytes));
  }

  #onWritten(chunk: Chunk, error: NodeJS.ErrnoException | null, writtenBytes: number): void {
    if (this.#end !== undefined) return;
    if (error !== null && error.code !== 'EAGAIN') {
      this.#finish(this.#endFor(error));
      return;
    }
    if (error !== null || writtenBytes === 0) {
      this.#retry = setTimeout(() => {
        this.#busy = false;
        this.#pump();
      }, this.#retryMs);
      this.#retryMs = Math.min(this.#retryMs * 2, LAST_RETRY_MS);
      return;
    }
    this.#busy = false;
    this.#retryMs = FIRST_RETRY_MS;
    this.#offset += writtenBytes;
    if (this.#offset >= chunk.usedBytes) {
      this.#settled += chunk.lines;
      this.#spool.removeFirst();
      this.#offset = 0;
      this.#settleWaiters();
    }
    this.#pump();
  }

  #endFor(error: NodeJS.ErrnoException): LineWriterEnd {
    if (readerGoneCodes.has(error.code)) return { reason: 'reader-gone' };
    const parts = { what: `cannot write to ${this.#name}`, why: error.message, cause: error };
    const next = 'Free space where the output goes, or redirect it';
    return {
      reason: 'failed',
      error: new RampartError(errorCodes.SYSTEM, error.code === 'ENOSPC' ? { ...parts, next } : parts),
    };
  }

  #finish(end: LineWriterEnd): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    clearTimeout(this.#retry);
    // The complete lines of the current chunk were written and are not lost.
    const first = this.#offset > 0 ? this.#spool.first() : undefined;
    if (first !== undefined) this.#settled += countLines(first.buffer.subarray(0, this.#offset));
    this.#lostAtEnd = this.#accepted - this.#settled;
    this.#dropped += this.#lostAtEnd;
    this.#settled = this.#accepted;
    this.#offset = 0;
    this.#spool.clear();
    this.#sink.close();
    this.#settleWaiters();
    this.#resolveClosed(end);
  }

  #settleWaiters(): void {
    for (const waiter of this.#waiters) {
      if (this.#end?.reason === 'failed') waiter.reject(this.#end.error);
      else if (waiter.untilSettled <= this.#settled) waiter.resolve();
    }
  }
}

function countLines(bytes: Uint8Array): number {
  let lines = 0;
  for (const byte of bytes) if (byte === NEWLINE) lines++;
  return lines;
}
