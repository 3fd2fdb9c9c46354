/** Files that others have written, read with a bound on the memory that they take. */
import { fstatSync, readSync } from 'node:fs';

import { errorCodes, RampartError } from '../errors/errors.ts';

const CHUNK_BYTES = 64 * 1024;

/**
 * Reads a whole regular file. Its size is checked first: a sparse file of gigabytes costs its author nothing.
 *
 * @param name for the error
 * @throws {RampartError} `LIMIT` if it has more bytes, even if it grows during the read; the error of read(2)
 */
export function readBounded(fd: number, maxBytes: number, name: string): Buffer {
  const { size } = fstatSync(fd);
  if (size > maxBytes) throw tooLong(name, maxBytes);
  // One byte more, to see whether the file has grown.
  const buffer = Buffer.allocUnsafeSlow(size + 1);
  let done = 0;
  for (;;) {
    const read = readSync(fd, buffer, done, buffer.length - done, done);
    if (read === 0) return buffer.subarray(0, done);
    done += read;
    if (done > size) throw tooLong(name, maxBytes);
  }
}

/**
 * The start of a file without a size, such as those of procfs, up to `maxBytes`.
 *
 * @throws the error of read(2)
 */
export function readStart(fd: number, maxBytes: number): Buffer {
  const chunks: Buffer[] = [];
  for (let left = maxBytes; left > 0;) {
    const chunk = Buffer.allocUnsafeSlow(Math.min(left, CHUNK_BYTES));
    const read = readSync(fd, chunk);
    if (read === 0) break;
    chunks.push(chunk.subarray(0, read));
    left -= read;
  }
  return Buffer.concat(chunks);
}

function tooLong(name: string, maxBytes: number): RampartError {
  return new RampartError(errorCodes.LIMIT, {
    what: `${name} is not read`,
    why: `it has more than ${maxBytes} bytes, or is growing`,
  });
}
