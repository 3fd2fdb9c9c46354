/** Reads the frames of a baseline in order; it needs only as much memory as the longest frame. */
import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { fileError, type RampartError } from '../../../lib/errors/errors.ts';
import { BaselineError } from './baseline-error.ts';
import { frameHeadBytes, frameTailBytes, hasCrc, longestPayloadBytes } from './format.ts';

/** The frame at `at`, verified by its CRC. It is a view, valid until the next frame is taken. */
export async function takeFrame(
  path: string,
  window: Window,
  at: number,
  sizeBytes: number,
  index: number,
): Promise<Buffer> {
  const left = sizeBytes - at;
  const ends = (): BaselineError =>
    new BaselineError('truncated', path, `it ends after ${sizeBytes} bytes, in the middle of block ${index}`);
  if (left < frameHeadBytes + frameTailBytes) throw ends();
  const length = (await window.peek(frameHeadBytes)).readUInt32LE(1);
  const damaged = (): BaselineError =>
    new BaselineError('damaged', path, `block ${index}, at byte ${at}, is damaged`);
  if (length > longestPayloadBytes) throw damaged();
  const bytes = frameHeadBytes + length + frameTailBytes;
  if (bytes > left) throw ends();
  const frame = await window.take(bytes);
  if (!hasCrc(frame, index)) throw damaged();
  return frame;
}

/** Reads a file from start to end, through a buffer that grows to the longest frame. */
export class Window {
  readonly #path: string;
  readonly #file: FileHandle;
  #bytes = Buffer.allocUnsafeSlow(256 * 1024);
  #start = 0;
  #end = 0;
  #fileAt = 0;

  constructor(path: string, file: FileHandle) {
    this.#path = path;
    this.#file = file;
  }

  /** Returns the next bytes without consuming them. The caller must know that the file has this many. */
  async peek(length: number): Promise<Buffer> {
    while (this.#end - this.#start < length) {
      if (this.#start > 0) {
        this.#bytes.copyWithin(0, this.#start, this.#end);
        this.#end -= this.#start;
        this.#start = 0;
      }
      if (length > this.#bytes.length) {
        const larger = Buffer.allocUnsafeSlow(length);
        this.#bytes.copy(larger, 0, 0, this.#end);
        this.#bytes = larger;
      }
      const read = await readAt(this.#path, this.#file, this.#bytes.subarray(this.#end), this.#fileAt);
      if (read === 0)
        throw new BaselineError('truncated', this.#path, 'it was truncated while it was being read');
      this.#end += read;
      this.#fileAt += read;
    }
    return this.#bytes.subarray(this.#start, this.#start + length);
  }

  async take(length: number): Promise<Buffer> {
    const bytes = await this.peek(length);
    this.#start += length;
    return bytes;
  }
}

/** Fills `target`, or as much of it as the file has. Returns the number of bytes read. */
export async function readAt(path: string, file: FileHandle, target: Buffer, at: number): Promise<number> {
  let done = 0;
  try {
    while (done < target.length) {
      const { bytesRead } = await file.read(target, done, target.length - done, at + done);
      if (bytesRead === 0) break;
      done += bytesRead;
    }
  } catch (error) {
    throw unreadable(path, error);
  }
  return done;
}

/** @throws BaselineError if it does not exist; RampartError SYSTEM */
export async function openBaselineFile(path: string): Promise<FileHandle> {
  try {
    // Without O_NONBLOCK, opening a FIFO at this path would block.
    return await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT' || code === 'ENOTDIR')
      throw new BaselineError('missing', path, 'it does not exist', error);
    throw unreadable(path, error);
  }
}

export function unreadable(path: string, error: unknown): RampartError {
  return fileError(`the baseline ${path} cannot be read`, error, 'Changes are unknown until it can be read');
}
