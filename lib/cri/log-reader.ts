/** The log of a container as text: read, cut as requested, and followed. */
import type { FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import { errorCodes, RampartError } from '../errors/errors.ts';
import { FileChanges } from './file-changes.ts';
import { LogDecoder, type LogTextOptions } from './log-decoder.ts';
import { openLogFile, successorOf, tailStart } from './log-file.ts';

export interface LogReadOptions extends LogTextOptions {
  /** Follow the log until the container ends. */
  readonly follow?: boolean | undefined;
  /** Number of lines from the end of the log to return. */
  readonly tailLines?: number | undefined;
  /** Limit of bytes to return, which may split a line. */
  readonly limitBytes?: number | undefined;
}

interface LogSource {
  readonly path: string;
  /**
   * Whether nothing more will be written. Called at most once a second, after everything available was read.
   */
  hasEnded(signal: AbortSignal): Promise<boolean>;
  /** Called with a description of missing text, which the text itself does not show. */
  onLoss(what: string): void;
}

const READ_BYTES = 64 * 1024;
/**
 * How long to wait before moving to the next file: during a rotation the runtime may still write to the
 * old one.
 */
const ROTATION_MS = 100;
const ASK_MS = 1_000;
/** How long a line without an end may delay the other stream. */
const SETTLE_MS = 1_000;
const nothing = Buffer.alloc(0);

/**
 * Opens the log of a container, which is then read on demand, one portion at a time. Ending the iteration closes the file; so
 * does aborting the signal, which is not an error.
 *
 * @throws {RampartError} as `openLogFile`; reading also throws it if the next file cannot be opened.
 */
export async function openLog(
  source: LogSource,
  options: LogReadOptions,
  signal: AbortSignal,
): Promise<AsyncGenerator<Uint8Array, void, void>> {
  const log = read(source, options, signal);
  // Runs the generator to its first `yield`: then the file is open, and the generator will close it.
  await log.next();
  return log;
}

async function* read(
  source: LogSource,
  options: LogReadOptions,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, void> {
  const file = new FollowedFile(source, await openLogFile(source.path));
  try {
    yield nothing;
    let left = options.limitBytes ?? Number.POSITIVE_INFINITY;
    for await (const text of texts(file, source, options, signal)) {
      yield text.length > left ? text.subarray(0, left) : text;
      left -= text.length;
      if (left <= 0) return;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    await file.close();
  }
}

async function* texts(
  file: FollowedFile,
  source: LogSource,
  { follow = false, tailLines, ...textOptions }: LogReadOptions,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, void> {
  const decoder = new LogDecoder(textOptions);
  const sizeBytes = await file.sizeBytes();
  if (tailLines !== undefined) await file.startAtTail(sizeBytes, tailLines, signal);
  // Without `follow`, later writes are excluded: otherwise, a container that writes constantly would never let it end.
  const endBytes = follow ? Number.POSITIVE_INFINITY : sizeBytes;
  const buffer = Buffer.allocUnsafe(READ_BYTES);
  using changes = follow ? new FileChanges(dirname(source.path)) : undefined;
  let [hasEnded, askedMs, quietSinceMs] = [false, Number.NEGATIVE_INFINITY, performance.now()];
  try {
    for (;;) {
      signal.throwIfAborted();
      const bytes = await file.read(buffer, endBytes);
      if (bytes.length > 0) {
        decoder.push(bytes);
        const text = decoder.take();
        if (text.length > 0) yield text;
        quietSinceMs = performance.now();
        continue;
      }
      if (follow && (await file.toNext(decoder))) continue;
      if (changes === undefined || hasEnded) break;
      if (decoder.isWaiting && performance.now() - quietSinceMs >= SETTLE_MS) {
        decoder.settle();
        yield decoder.take();
      }
      if (performance.now() - askedMs >= ASK_MS) {
        askedMs = performance.now();
        hasEnded = await source.hasEnded(signal);
        // Reads the container's last output before it ends.
        if (hasEnded) continue;
      }
      await changes.next(ASK_MS, signal);
    }
    decoder.endFile();
    const rest = decoder.take();
    if (rest.length > 0) yield rest;
  } finally {
    if (decoder.badRecords > 0) {
      source.onLoss(`${decoder.badRecords} lines of ${source.path} are not log records and were skipped`);
    }
  }
}

/** The file that is being read, and those that come after it. */
class FollowedFile {
  readonly #source: LogSource;
  #file: FileHandle;
  #positionBytes = 0;
  /** The next file, once it was found. */
  #next: { readonly path: string; readonly isGap: boolean } | undefined;

  constructor(source: LogSource, file: FileHandle) {
    this.#source = source;
    this.#file = file;
  }

  async sizeBytes(): Promise<number> {
    return (await this.#file.stat()).size;
  }

  async startAtTail(sizeBytes: number, lines: number, signal: AbortSignal): Promise<void> {
    this.#positionBytes = await tailStart(this.#file, sizeBytes, lines, signal);
  }

  /** The next bytes, in `buffer`; empty at the end. */
  async read(buffer: Buffer, endBytes: number): Promise<Buffer> {
    const length = Math.max(0, Math.min(buffer.length, endBytes - this.#positionBytes));
    const { bytesRead } = await this.#file.read(buffer, 0, length, this.#positionBytes);
    this.#positionBytes += bytesRead;
    return buffer.subarray(0, bytesRead);
  }

  /** Call at the end of the file: moves to the next one, if there is one. @returns whether to read again. */
  async toNext(decoder: LogDecoder): Promise<boolean> {
    const next = await successorOf(this.#file, this.#source.path, this.#positionBytes);
    if (next === undefined) return false;
    if (next === 'emptied') {
      decoder.endFile();
      this.#positionBytes = 0;
      return true;
    }
    if (this.#next?.path !== next.path) {
      // The runtime creates the new file before it stops writing to the old one: the rest of the old one is read first.
      this.#next = next;
      await delay(ROTATION_MS);
      return true;
    }
    const file = await openLogFile(next.path).catch((error: unknown) => {
      if (error instanceof RampartError && error.code === errorCodes.NOT_FOUND) return undefined;
      throw error;
    });
    // The file does not exist any longer: the runtime has rotated again.
    if (file === undefined) {
      this.#next = undefined;
      return false;
    }
    await this.#file.close();
    if (next.isGap)
      this.#source.onLoss(`some rotated files of ${this.#source.path} were removed before they were read`);
    [this.#file, this.#positionBytes, this.#next] = [file, 0, undefined];
    decoder.endFile();
    return true;
  }

  async close(): Promise<void> {
    await this.#file.close();
  }
}
