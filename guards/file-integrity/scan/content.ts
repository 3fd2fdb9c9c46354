/** Reads a file for its checksums. */
import { hash } from 'node:crypto';
import { constants } from 'node:os';

import { errno, fileCalls } from '../../../lib/ebpf/ffi.ts';
import { FixedBuffer } from '../../../lib/ebpf/libc.ts';
import { putLatin1 } from '../database/bytes.ts';
import { blockBytes, ContentDigest } from './content-digest.ts';
import type { ReadRate, RunState } from './shared-state.ts';

/** Larger files are read in parts of this size. */
const bufferBytes = 8 * blockBytes;
/** After this many bytes, it is checked whether reading on makes sense, and the page cache is released. */
const stageBytes = 16 * 1024 * 1024;
const { EINTR, EAGAIN, EOPNOTSUPP } = constants.errno;
/** include/uapi/linux/fs.h */
const SEEK_DATA = 3;
const SEEK_HOLE = 4;
/**
 * Only content in the page cache; else EAGAIN. EOPNOTSUPP if the file system does not support it, such as
 * overlayfs. Linux 4.14.
 */
const RWF_NOWAIT = 8;
/** include/uapi/linux/fadvise.h */
const POSIX_FADV_DONTNEED = 4;

export interface Digests {
  readonly sha256: Buffer;
  readonly sha512: Buffer;
}

export interface Wanted {
  readonly sha256: boolean;
  readonly sha512: boolean;
}

/** The content to read. */
export interface OpenContent {
  readonly fd: number;
  readonly sizeBytes: number;
  /** Blocks of 512 bytes on the disk. With fewer of them than its size needs, a file may have holes. */
  readonly blockCount: number;
  /** Whether it is still the file that was examined, and as long; asked while a large one is read. */
  readonly isStill: () => boolean;
}

const none = Buffer.alloc(0);

/**
 * One for each thread: its buffers are reused. A scan does not change the page cache: otherwise it would
 * displace pages that the node needs, and count as memory of the agent's cgroup. A cached file stays; for a
 * partly cached one, everything after the first missing page is released, since the kernel's read-ahead for
 * us cannot be distinguished.
 */
export class ContentReader {
  readonly #buffer = new FixedBuffer(bufferBytes);
  /** `struct iovec`: address and length, in four words of 32 bits. */
  readonly #vector = new FixedBuffer(16);
  readonly #vectorWords = new Uint32Array(this.#vector.bytes.buffer, this.#vector.bytes.byteOffset, 4);
  readonly #sha256 = Buffer.alloc(32);
  readonly #sha512 = Buffer.alloc(64);
  readonly #rate: ReadRate;
  readonly mayWait: boolean;
  /** See {@link ThreadPoolOptions.restMs}; undefined if files are always examined before they are read. */
  readonly restMs: number | undefined;
  /** From here on, this file was not in the page cache; -1 while all of it was. */
  #uncachedFrom = -1;

  /** @param mayWait whether the thread may wait, as for the rate; otherwise it reads only files that were examined */
  constructor(rate: ReadRate, mayWait: boolean, restMs: number) {
    this.#rate = rate;
    this.mayWait = mayWait;
    // A limited rate needs the number of bytes before each read, so every file is examined first.
    this.restMs = mayWait && rate.isUnlimited ? restMs : undefined;
  }

  /**
   * The checksums of the first `sizeBytes` bytes of an open file, in buffers that the next call reuses; the
   * errno as a negative number if it cannot be read; undefined if it has fewer bytes, or has changed.
   *
   * @throws StoppedError
   */
  digest(
    content: OpenContent,
    wanted: Wanted,
    state: RunState,
    thread: number,
  ): Digests | number | undefined {
    const { fd, sizeBytes } = content;
    this.#uncachedFrom = -1;
    try {
      if (sizeBytes > bufferBytes) return this.#digestInParts(content, wanted, state, thread);
      const length = this.#fill(fd, 0, sizeBytes, state);
      if (length < 0) return length;
      return length < sizeBytes ? undefined : this.digestsOf(length, wanted, state, thread);
    } finally {
      this.#releaseCache(fd, 0);
    }
  }

  /**
   * Reads the start of an open file, which stays where it is. How many bytes it got, or the errno as a negative number: of a
   * FIFO it gets nothing, since that has no start (pread(2), ESPIPE).
   */
  readStart(fd: number): number {
    this.#uncachedFrom = -1;
    const read = this.#read(fd, 0, bufferBytes, 0);
    this.#releaseCache(fd, 0);
    return read;
  }

  /** Digests of the bytes from {@link readStart}; in buffers that the next call reuses. */
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
    { fd, sizeBytes, blockCount, isStill }: OpenContent,
    wanted: Wanted,
    state: RunState,
    thread: number,
  ): Digests | number | undefined {
    const algorithms = [...(wanted.sha256 ? ['sha256'] : []), ...(wanted.sha512 ? ['sha512'] : [])];
    const digest = new ContentDigest(algorithms);
    const mayHaveHoles = blockCount * 512 < sizeBytes;
    let dataEnd = mayHaveHoles ? 0 : sizeBytes;
    let stageAt = stageBytes;
    for (let at = 0; at < sizeBytes;) {
      state.throwIfStopped();
      if (at >= stageAt) {
        if (!isStill()) return undefined;
        this.#releaseCache(fd, at);
        stageAt = at + stageBytes;
      }
      if (at >= dataEnd) {
        const data = seek(fd, at, SEEK_DATA, sizeBytes);
        const hole = wholeBlocks(Math.min(data, sizeBytes) - at);
        if (hole > 0) {
          // Zero blocks that are not hashed are skipped in one step.
          const left = digest.hashedZeroBlocks;
          const count = left === 0 ? hole : Math.min(hole, left, stageBytes / blockBytes);
          digest.zeroBlocks(count);
          at += count * blockBytes;
          continue;
        }
        dataEnd = data >= sizeBytes ? sizeBytes : seek(fd, data, SEEK_HOLE, sizeBytes);
        // Parts that are neither whole blocks of data nor of holes are read.
        dataEnd = Math.min(sizeBytes, Math.max(at + blockBytes, upToBlock(dataEnd)));
      }
      const max = Math.min(dataEnd - at, bufferBytes);
      const read = this.#fill(fd, at, max, state);
      if (read < 0) return read;
      if (read < max) return undefined;
      digest.update(this.#buffer.bytes.subarray(0, read));
      state.add(thread, 0, read);
      at += read;
    }
    const sums = digest.digests();
    return {
      sha256: wanted.sha256 ? (sums[0] ?? none) : none,
      sha512: wanted.sha512 ? (sums.at(-1) ?? none) : none,
    };
  }

  /**
   * Reads `sizeBytes` bytes into the buffer, as fast as the rate allows; fewer at the end of the file. The
   * errno as a negative number.
   */
  #fill(fd: number, offset: number, sizeBytes: number, state: RunState): number {
    const stopFlag = this.mayWait ? state.stopFlag : undefined;
    let length = 0;
    while (length < sizeBytes) {
      const max = Math.min(sizeBytes - length, this.#rate.chunkBytes);
      this.#rate.take(max, stopFlag);
      const read = this.#read(fd, length, max, offset + length);
      if (read < 0) return read;
      if (read === 0) break;
      length += read;
    }
    return length;
  }

  #read(fd: number, at: number, max: number, offset: number): number {
    const address = this.#buffer.address + at;
    const words = this.#vectorWords;
    words[0] = address;
    words[1] = address / 2 ** 32;
    words[2] = max;
    words[3] = 0;
    let isCached = true;
    for (;;) {
      const read = isCached
        ? fileCalls.preadv2(fd, this.#vector.address, 1, offset, RWF_NOWAIT)
        : fileCalls.pread(fd, address, max, offset);
      if (read >= 0) return read;
      const number = errno();
      if (isCached && number === EAGAIN && this.#uncachedFrom < 0) this.#uncachedFrom = offset;
      if (isCached && (number === EAGAIN || number === EOPNOTSUPP)) isCached = false;
      else if (number !== EINTR) return -number;
    }
  }

  /** @param to before this offset; 0 for all of the file, with what was read ahead */
  #releaseCache(fd: number, to: number): void {
    const from = this.#uncachedFrom;
    if (from < 0) return;
    fileCalls.fadvise(fd, from, to === 0 ? 0 : to - from, POSIX_FADV_DONTNEED);
    this.#uncachedFrom = to === 0 ? -1 : to;
  }
}

/** The start of the next data or hole, the size if none follows or the file system does not say (lseek(2)). */
function seek(fd: number, at: number, whence: number, sizeBytes: number): number {
  const found = fileCalls.lseek(fd, at, whence);
  if (found >= 0) return found;
  // ENXIO: a hole up to the end. Any other errno: all is read.
  return whence === SEEK_DATA && errno() !== constants.errno.ENXIO ? at : sizeBytes;
}

function wholeBlocks(sizeBytes: number): number {
  return Math.floor(sizeBytes / blockBytes);
}

function upToBlock(sizeBytes: number): number {
  return Math.ceil(sizeBytes / blockBytes) * blockBytes;
}
