/** Reads a file for its checksums. */
import { createHash, hash } from 'node:crypto';
import { constants } from 'node:os';

import { errno, fileCalls } from '../../../lib/ebpf/ffi.ts';
import { FixedBuffer } from '../../../lib/ebpf/libc.ts';
import { putLatin1 } from '../database/bytes.ts';
import type { ReadRate, RunState } from './shared-state.ts';

/** Larger files are read in parts of this size. */
const bufferBytes = 512 * 1024;
const { EINTR } = constants.errno;

export interface Digests {
  readonly sha256: Buffer;
  readonly sha512: Buffer;
}

export interface Wanted {
  readonly sha256: boolean;
  readonly sha512: boolean;
}

const none = Buffer.alloc(0);

/** One for each thread: its buffers are used again. */
export class ContentReader {
  readonly #buffer = new FixedBuffer(bufferBytes);
  readonly #sha256 = Buffer.alloc(32);
  readonly #sha512 = Buffer.alloc(64);
  readonly #rate: ReadRate;
  readonly mayWait: boolean;
  /** See {@link ThreadPoolOptions.restMs}; undefined where files are always looked at before they are read. */
  readonly restMs: number | undefined;

  /** @param mayWait whether the thread may be held up, as for the rate; without it no file is read that was not looked at */
  constructor(rate: ReadRate, mayWait: boolean, restMs: number) {
    this.#rate = rate;
    this.mayWait = mayWait;
    // How much there is to read has to be known before it is read where that has to wait its turn.
    this.restMs = mayWait && rate.isUnlimited ? restMs : undefined;
  }

  /**
   * The checksums of the first `sizeBytes` bytes of an open file, in buffers that the next call uses again; the errno as a
   * negative number where it cannot be read; undefined where it has fewer bytes.
   *
   * @throws StoppedError
   */
  digest(
    fd: number,
    sizeBytes: number,
    wanted: Wanted,
    state: RunState,
    thread: number,
  ): Digests | number | undefined {
    const stopFlag = this.mayWait ? state.stopFlag : undefined;
    const chunkBytes = Math.min(bufferBytes, this.#rate.chunkBytes);
    if (sizeBytes > chunkBytes) return this.#digestInParts(fd, sizeBytes, wanted, state, thread);
    let length = 0;
    while (length < sizeBytes) {
      this.#rate.take(sizeBytes - length, stopFlag);
      const read = this.#read(fd, length, sizeBytes - length);
      if (read < 0) return read;
      if (read === 0) return undefined;
      length += read;
    }
    return this.digestsOf(length, wanted, state, thread);
  }

  /**
   * Reads the start of an open file, which stays where it is. How many bytes it got, or the errno as a negative number: of a
   * FIFO it gets nothing, since that has no start (pread(2), ESPIPE).
   */
  readStart(fd: number): number {
    const read = fileCalls.pread(fd, this.#buffer.address, bufferBytes, 0);
    return read >= 0 ? read : -errno();
  }

  /** Of the bytes that {@link readStart} got; in buffers that the next call uses again. */
  digestsOf(length: number, wanted: Wanted, state: RunState, thread: number): Digests {
    state.add(thread, 0, length);
    const { buffer, byteOffset } = this.#buffer.bytes;
    const bytes = new Uint8Array(buffer, byteOffset, length);
    // A text costs less than a buffer of its own.
    if (wanted.sha256) putLatin1(this.#sha256, 0, hash('sha256', bytes, 'binary'));
    if (wanted.sha512) putLatin1(this.#sha512, 0, hash('sha512', bytes, 'binary'));
    return { sha256: wanted.sha256 ? this.#sha256 : none, sha512: wanted.sha512 ? this.#sha512 : none };
  }

  #digestInParts(
    fd: number,
    sizeBytes: number,
    wanted: Wanted,
    state: RunState,
    thread: number,
  ): Digests | number | undefined {
    const stopFlag = this.mayWait ? state.stopFlag : undefined;
    const sha256 = wanted.sha256 ? createHash('sha256') : undefined;
    const sha512 = wanted.sha512 ? createHash('sha512') : undefined;
    const chunkBytes = Math.min(bufferBytes, this.#rate.chunkBytes);
    for (let rest = sizeBytes; rest > 0;) {
      state.throwIfStopped();
      const most = Math.min(rest, chunkBytes);
      this.#rate.take(most, stopFlag);
      const read = this.#read(fd, 0, most);
      if (read < 0) return read;
      if (read === 0) return undefined;
      const bytes = this.#buffer.bytes.subarray(0, read);
      sha256?.update(bytes);
      sha512?.update(bytes);
      state.add(thread, 0, read);
      rest -= read;
    }
    return { sha256: sha256?.digest() ?? none, sha512: sha512?.digest() ?? none };
  }

  #read(fd: number, at: number, most: number): number {
    for (;;) {
      const read = fileCalls.read(fd, this.#buffer.address + at, most);
      if (read >= 0) return read;
      const number = errno();
      if (number !== EINTR) return -number;
    }
  }
}
