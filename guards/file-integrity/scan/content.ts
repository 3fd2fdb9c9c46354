/** Reads a file for its checksums. */
import { hash } from 'node:crypto';
import { constants } from 'node:os';

import { errno, fileCalls } from '../../../lib/ebpf/ffi.ts';
import { FixedBuffer } from '../../../lib/ebpf/libc.ts';
import { putLatin1 } from '../database/bytes.ts';
import { blockBytes, ContentDigest } from './content-digest.ts';
import type { ReadRate, RunState } from './shared-state.ts';

/** Larger files are read in chunks of this size. */
const bufferBytes = 8 * blockBytes;
/** After this many bytes, check whether it makes sense to continue, and release the page cache. */
const stageBytes = 16 * 1024 * 1024;
const { EINTR, EAGAIN, EOPNOTSUPP } = constants.errno;
/** From include/uapi/linux/fs.h. */
const SEEK_DATA = 3;
const SEEK_HOLE = 4;
/**
 * Reads only what is in the page cache; otherwise fails with EAGAIN. EOPNOTSUPP if the file system does not support it,
 * as overlayfs. Linux 4.14.
 */
const RWF_NOWAIT = 8;
/** From include/uapi/linux/fadvise.h. */
const POSIX_FADV_DONTNEED = 4;

export interface Digests {
  readonly sha256: Buffer;
  readonly sha512: Buffer;
}

export interface Wanted {
  readonly sha256: boolean;
  readonly sha512: boolean;
}

/** The open file to read. */
export interface OpenContent {
  readonly fd: number;
  readonly sizeBytes: number;
  /** Number of blocks of 512 bytes on disk. If they are fewer than the size requires, the file may have holes. */
  readonly blockCount: number;
  /** Whether the file at the path is still the same and has not changed; called repeatedly while a large file is read. */
  readonly isStill: () => boolean;
}

const none = Buffer.alloc(0);

/**
 * Reads files for one thread; its buffers are reused. A scan leaves the page cache as it was: otherwise it would
 * displace pages that the node needs, and count as memory of the agent's cgroup. A file that was cached stays cached.
 * If a part was, everything after the first missing page is released, because pages that the kernel has read ahead for
 * us cannot be distinguished from others.
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
  /** Offset from which this file was not in the page cache; -1 if all of it was so far. */
  #uncachedFrom = -1;

  /**
   * @param mayWait whether the thread may wait, e.g. for the read rate; if not, it reads only files that were already
   *   examined
   */
  constructor(rate: ReadRate, mayWait: boolean, restMs: number) {
    this.#rate = rate;
    this.mayWait = mayWait;
    // A limited rate needs to know the size before each read, so every file is examined first.
    this.restMs = mayWait && rate.isUnlimited ? restMs : undefined;
  }

  /**
   * The checksums of the first `sizeBytes` bytes of an open file, in buffers that the next call reuses. Returns the
   * errno as a negative number if the file cannot be read, and undefined if it is shorter or has changed.
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
   * Reads the start of an open file with pread(2), without moving its offset. Returns the number of bytes, or the errno as a negative
   * number: ESPIPE for a FIFO, which has no offset.
   */
  readStart(fd: number): number {
    this.#uncachedFrom = -1;
    const read = this.#read(fd, 0, bufferBytes, 0);
    this.#releaseCache(fd, 0);
    return read;
  }

  /** The checksums of the bytes read by {@link readStart}, in buffers that the next call reuses. */
  digestsOf(length: number, wanted: Wanted, state: RunState, thread: number): Digests {
    state.add(thread, 0, length);
    const { buffer, byteOffset } = this.#buffer.bytes;
    const bytes = new Uint8Array(buffer, byteOffset, length);
    // Creating a string costs less than creating a buffer.
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
          // Blocks of zeros that are not hashed are skipped in one step.
          const left = digest.hashedZeroBlocks;
          const count = left === 0 ? hole : Math.min(hole, left, stageBytes / blockBytes);
          digest.zeroBlocks(count);
          at += count * blockBytes;
          continue;
        }
        dataEnd = data >= sizeBytes ? sizeBytes : seek(fd, data, SEEK_HOLE, sizeBytes);
        // The border between data and a hole may be within a block: such a block is read.
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
   * Reads `sizeBytes` bytes into the buffer, as fast as the rate allows. Returns the number of bytes, which is smaller
   * at the end of the file, or the errno as a negative number.
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

  /** Releases pages of the file that were not cached before. @param to end offset; 0 releases all, including pages read ahead */
  #releaseCache(fd: number, to: number): void {
    const from = this.#uncachedFrom;
    if (from < 0) return;
    fileCalls.fadvise(fd, from, to === 0 ? 0 : to - from, POSIX_FADV_DONTNEED);
    this.#uncachedFrom = to === 0 ? -1 : to;
  }
}

/** The start of the next data or hole (lseek(2)); the size if none follows, or if the file system does not support this. */
function seek(fd: number, at: number, whence: number, sizeBytes: number): number {
  const found = fileCalls.lseek(fd, at, whence);
  if (found >= 0) return found;
  // ENXIO means a hole up to the end. After any other error, everything is read.
  return whence === SEEK_DATA && errno() !== constants.errno.ENXIO ? at : sizeBytes;
}

function wholeBlocks(sizeBytes: number): number {
  return Math.floor(sizeBytes / blockBytes);
}

function upToBlock(sizeBytes: number): number {
  return Math.ceil(sizeBytes / blockBytes) * blockBytes;
}
