/**
 * The checksums of a large file. Holes are not read, and a file of nothing but holes must not take hours: `truncate -s 16T`
 * costs its writer nothing.
 *
 * Up to {@link maxZeroBytes} of zeros the checksums are those of the content, as sha256sum(1) and AIDE calculate them. Beyond it,
 * blocks of zeros are skipped, and where they are is part of the checksum. Only the content decides: whether zeros are a hole or
 * written makes no difference, so a copy or a defragmented file has the same checksums.
 */
import { createHash, type Hash } from 'node:crypto';

/** Zeros count by whole blocks at multiples of this. */
export const blockBytes = 64 * 1024;
/** About 2 s of sha512. */
export const maxZeroBytes = 1024 * 1024 * 1024;

const zeros = Buffer.alloc(8 * blockBytes);
const zeroBlock = zeros.subarray(0, blockBytes);

interface Sum {
  readonly algorithm: string;
  readonly hash: Hash;
}

/** Takes the content in order, from its start; each call but the last one takes whole blocks. */
export class ContentDigest {
  readonly #sums: readonly Sum[];
  /** Where the skipped blocks are: pairs of the first block and their number. */
  readonly #skips = createHash('sha512');
  #leftZeroBlocks: number;
  /** Blocks before this one were taken. */
  #block = 0;
  #skipped = 0;
  #hasSkipped = false;

  /** @param zeroLimitBytes how many zeros are hashed directly */
  constructor(algorithms: readonly string[], zeroLimitBytes = maxZeroBytes) {
    this.#leftZeroBlocks = zeroLimitBytes / blockBytes;
    this.#sums = algorithms.map((algorithm) => ({ algorithm, hash: createHash(algorithm) }));
  }

  /** Adds bytes that were read. */
  update(bytes: Uint8Array): void {
    let from = 0;
    for (let at = 0; at + blockBytes <= bytes.length; at += blockBytes) {
      const block = bytes.subarray(at, at + blockBytes);
      // The first byte alone decides for nearly all.
      const isZero = block[0] === 0 && zeroBlock.equals(block);
      if (isZero && this.#leftZeroBlocks === 0) {
        this.#add(bytes.subarray(from, at));
        this.#skip(1);
        from = at + blockBytes;
        continue;
      }
      if (isZero) this.#leftZeroBlocks--;
      this.#endSkip();
      this.#block++;
    }
    if (from < bytes.length) this.#endSkip();
    this.#add(bytes.subarray(from));
  }

  /** At most this many blocks of zeros are hashed: the rest is skipped at once. */
  get hashedZeroBlocks(): number {
    return this.#leftZeroBlocks;
  }

  /** Blocks of zeros that need not be read. */
  zeroBlocks(count: number): void {
    let hashed = Math.min(count, this.#leftZeroBlocks);
    this.#leftZeroBlocks -= hashed;
    this.#block += hashed;
    const skipped = count - hashed;
    for (; hashed > 0; hashed -= 8) this.#add(zeros.subarray(0, Math.min(hashed, 8) * blockBytes));
    if (skipped > 0) this.#skip(skipped);
  }

  /** In the order of the algorithms. */
  digests(): Buffer[] {
    this.#endSkip();
    if (!this.#hasSkipped) return this.#sums.map(({ hash }) => hash.digest());
    const skips = this.#skips.digest();
    return this.#sums.map(({ algorithm, hash }) => {
      const sum = createHash(algorithm).update(hash.digest()).update(skips).digest();
      // Inverted: no content can be found whose own checksum this is.
      return sum.map((byte) => byte ^ 0xff) as Buffer;
    });
  }

  #add(bytes: Uint8Array): void {
    if (bytes.length > 0) for (const { hash } of this.#sums) hash.update(bytes);
  }

  #skip(count: number): void {
    this.#skipped += count;
    this.#block += count;
  }

  #endSkip(): void {
    if (this.#skipped === 0) return;
    const run = new Float64Array([this.#block - this.#skipped, this.#skipped]);
    this.#skips.update(run);
    this.#skipped = 0;
    this.#hasSkipped = true;
  }
}
