/**
 * The checksums of a large file. A file that consists of holes must not take hours, since `truncate -s 16T` costs
 * nothing. So holes are not read.
 *
 * Up to {@link maxZeroBytes} of zeros, the checksums are those of the content, as sha256sum(1) and AIDE calculate them.
 * Beyond that, blocks of zeros are skipped, and their positions become part of the checksum. It makes no difference
 * whether zeros are a hole or were written, so a copy and a defragmented file have the same checksums.
 */
import { createHash, type Hash } from 'node:crypto';

/** Zeros are counted in blocks of this size, aligned to it. */
export const blockBytes = 64 * 1024;
/** Limit of zeros that are hashed, which takes about 2 s with sha512. */
export const maxZeroBytes = 1024 * 1024 * 1024;

const zeros = Buffer.alloc(8 * blockBytes);
const zeroBlock = zeros.subarray(0, blockBytes);

interface Sum {
  readonly algorithm: string;
  readonly hash: Hash;
}

/** Takes the content in order, from its start; each call except the last must have whole blocks. */
export class ContentDigest {
  readonly #sums: readonly Sum[];
  /** Digest of the positions of skipped blocks: pairs of the first block and the number of blocks. */
  readonly #skips = createHash('sha512');
  #leftZeroBlocks: number;
  /** Number of blocks taken so far. */
  #block = 0;
  #skipped = 0;
  #hasSkipped = false;

  /** @param zeroLimitBytes limit of zeros that are hashed */
  constructor(algorithms: readonly string[], zeroLimitBytes = maxZeroBytes) {
    this.#leftZeroBlocks = zeroLimitBytes / blockBytes;
    this.#sums = algorithms.map((algorithm) => ({ algorithm, hash: createHash(algorithm) }));
  }

  /** Adds bytes that were read. */
  update(bytes: Uint8Array): void {
    let from = 0;
    for (let at = 0; at + blockBytes <= bytes.length; at += blockBytes) {
      const block = bytes.subarray(at, at + blockBytes);
      // For nearly all blocks, the first byte is enough to tell.
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

  /** How many more blocks of zeros will be hashed; further ones are skipped. */
  get hashedZeroBlocks(): number {
    return this.#leftZeroBlocks;
  }

  /** Adds blocks of zeros without reading them. */
  zeroBlocks(count: number): void {
    let hashed = Math.min(count, this.#leftZeroBlocks);
    this.#leftZeroBlocks -= hashed;
    this.#block += hashed;
    const skipped = count - hashed;
    for (; hashed > 0; hashed -= 8) this.#add(zeros.subarray(0, Math.min(hashed, 8) * blockBytes));
    if (skipped > 0) this.#skip(skipped);
  }

  /** The checksums, in the order of the algorithms. */
  digests(): Buffer[] {
    this.#endSkip();
    if (!this.#hasSkipped) return this.#sums.map(({ hash }) => hash.digest());
    const skips = this.#skips.digest();
    return this.#sums.map(({ algorithm, hash }) => {
      const sum = createHash(algorithm).update(hash.digest()).update(skips).digest();
      // Inverted, because otherwise a content could be constructed that has this as its ordinary checksum.
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
