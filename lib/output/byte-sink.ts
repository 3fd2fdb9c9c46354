/**
 * Where output bytes go: the one place that knows what kind of thing a file descriptor is, and how
 * each kind is written to without blocking the event loop or the end of the process.
 */
import { closeSync, constants, fstatSync, openSync, write as writeFile, type Stats } from 'node:fs';
import { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { isatty } from 'node:tty';

import { errorCodes, RampartError } from '../errors/errors.ts';

/** Takes bytes, one write at a time. */
export interface ByteSink {
  /**
   * Writes some or all of `bytes` and calls `done`, never before it returns, with the number of bytes
   * written or with the error. The bytes do not change until then, and may afterwards.
   */
  write(bytes: Uint8Array, done: (error: NodeJS.ErrnoException | null, writtenBytes: number) => void): void;
  /** Ends the use of the sink. A write under way may be cut off and may never report. */
  close(): void;
}

/**
 * The sink for a file descriptor. The descriptor stays the caller's: it is neither closed nor, for a
 * pipe or a terminal, switched to non-blocking, which would be felt by every process that shares it.
 *
 * - A pipe or a socket is driven by the event loop. libuv's thread pool must not do it: a thread
 *   blocked in write(2) by a reader that has stopped keeps process.exit() from ever returning.
 *   For that a pipe is opened again, non-blocking, through /proc/self/fd; a socket cannot be opened
 *   again and is switched to non-blocking, as Node does itself for `process.stdout`. A socket other
 *   than stdout and stderr is closed when its peer has gone.
 * - A terminal is opened again too, and answers EAGAIN while it is stopped (Ctrl-S).
 * - Files and devices are written by the thread pool, at the descriptor's own offset.
 *
 * @throws {RampartError} `SYSTEM` when `fd` is not an open descriptor.
 */
export function descriptorSink(fd: number): ByteSink {
  const stats = describeDescriptor(fd);
  if (stats.isFIFO()) {
    const own = reopenNonBlocking(fd);
    return socketSink(new Socket({ fd: own ?? fd, readable: false, writable: true }), own !== undefined);
  }
  if (stats.isSocket()) {
    // Node never closes these two, not even after an error, so that their numbers are not given out again.
    if (fd === 1) return directStreamSink(process.stdout);
    if (fd === 2) return directStreamSink(process.stderr);
    return socketSink(new Socket({ fd, readable: false, writable: true }), false);
  }
  return isatty(fd) ? terminalSink(fd) : fileSink(fd);
}

/** The sink for a stream, which stays the caller's: it is not ended. Its errors are reported by writes. */
export function streamSink(stream: Writable): ByteSink {
  const sink = directStreamSink(stream);
  // A stream may keep the bytes after it reported them written (a PassThrough does), so it gets its own copy.
  return { ...sink, write: (bytes, done) => sink.write(Buffer.from(bytes), done) };
}

/** The sink for a stream that no longer needs the bytes once it has reported them written. */
function directStreamSink(stream: Writable): ByteSink {
  const ignore = (): void => undefined;
  // The callback of write() reports errors as well; without a listener they would end the process.
  stream.on('error', ignore);
  return {
    write: (bytes, done) => {
      stream.write(bytes, (error) => done(error ?? null, error ? 0 : bytes.byteLength));
    },
    // The listener stays: a write under way may fail later, and must not end the process then.
    close: ignore,
  };
}

function socketSink(socket: Socket, owned: boolean): ByteSink {
  return {
    ...directStreamSink(socket),
    close: () => {
      // Destroying a socket that is not owned would close the caller's descriptor, whose number the next open() then gets.
      if (owned) socket.destroy();
      else socket.unref();
    },
  };
}

function fileSink(fd: number): ByteSink {
  return {
    write: (bytes, done) => writeFile(fd, bytes, 0, bytes.byteLength, null, done),
    close: () => undefined,
  };
}

function terminalSink(fd: number): ByteSink {
  const own = reopenNonBlocking(fd);
  if (own === undefined) return fileSink(fd);
  let underWay = false;
  let closing = false;
  return {
    write: (bytes, done) => {
      underWay = true;
      writeFile(own, bytes, 0, bytes.byteLength, null, (error, writtenBytes) => {
        underWay = false;
        if (closing) closeSync(own);
        done(error, writtenBytes);
      });
    },
    close: () => {
      // Not closed while the thread pool writes: its descriptor number could become another file's.
      closing = true;
      if (!underWay) closeSync(own);
    },
  };
}

function describeDescriptor(fd: number): Stats {
  try {
    return fstatSync(fd);
  } catch (error) {
    throw new RampartError(errorCodes.SYSTEM, {
      what: `cannot write to file descriptor ${fd}`,
      why: error instanceof Error ? error.message : String(error),
      cause: error,
    });
  }
}

/** A descriptor of our own for the same pipe or terminal, or undefined if that is not allowed. */
function reopenNonBlocking(fd: number): number | undefined {
  try {
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    // No /proc, another user's pipe (EACCES), or a reader that has gone (ENXIO): the first write reports it.
    return undefined;
  }
}
