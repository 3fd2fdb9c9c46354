/**
 * Many texts, kept as bytes outside of V8's heap.
 *
 * Why not as strings: docs/decisions/0004-objects-as-bytes.md.
 */
import { errorCodes, RampartError } from '../../errors/errors.ts';

/** A run of bytes, filled from its beginning. Each text in it follows a header. */
interface Slab {
  readonly bytes: Buffer;
  /** Number of bytes filled, from the beginning. */
  filled: number;
  /** Bytes that belong to texts that are still kept, headers included. */
  live: number;
}

/** A text's handle and its length in bytes, 32 bits each: with them a slab can be read from its beginning. */
const HEADER_BYTES = 8;
/**
 * Size of the first slab. Many caches have only one text, which should take little memory even if it changes
 * often.
 */
const FIRST_SLAB_BYTES = 8 * 1024;
/** A longer text than this share of a slab gets a slab of its own. */
const OWN_SLAB_SHARE = 4;
/** The space of removed texts is reclaimed once it is one part in this many of the filled bytes. */
const WASTE_SHARE = 6;

/**
 * Keeps texts under handles, which are small whole numbers. A text takes its length in UTF-8 and some 24
 * bytes. Later calls reclaim the space of removed texts in small steps, so that no more than a sixth is waste,
 * plus two slabs. A new slab is as large as all texts kept by then, up to a limit.
 */
export class TextArena {
  readonly #slabBytes: number;
  readonly #slabs = new Set<Slab>();
  #current: Slab;
  /** The slab with the text, by handle. */
  readonly #slabOf: (Slab | undefined)[] = [];
  readonly #offsetOf: number[] = [];
  readonly #free: number[] = [];
  #filledBytes = 0;
  #liveBytes = 0;

  /** @param slabBytes size of the largest slabs. @throws {RampartError} `INPUT` for an impossible size. */
  constructor(slabBytes = 1024 * 1024) {
    if (!Number.isSafeInteger(slabBytes) || slabBytes < 64) {
      throw new RampartError(errorCodes.INPUT, { what: `an arena with slabs of ${slabBytes} bytes` });
    }
    this.#slabBytes = slabBytes;
    this.#current = this.#addSlab(this.#nextBytes);
  }

  get size(): number {
    return this.#slabOf.length - this.#free.length;
  }

  /** Bytes of the texts that are kept, and their headers. */
  get liveBytes(): number {
    return this.#liveBytes;
  }

  /** Bytes of all slabs. */
  get reservedBytes(): number {
    let sum = 0;
    for (const { bytes } of this.#slabs) sum += bytes.length;
    return sum;
  }

  /** Keeps a text, which must be well-formed UTF-16 (JSON is). */
  add(text: string): number {
    const handle = this.#free.pop() ?? this.#slabOf.length;
    this.#write(handle, text);
    this.#squeeze();
    return handle;
  }

  /** Keeps another text under the same handle. */
  replace(handle: number, text: string): void {
    this.#forget(handle);
    this.#write(handle, text);
    this.#squeeze();
  }

  read(handle: number): string {
    const slab = this.#slab(handle);
    const at = this.#offsetOf[handle] as number;
    const length = slab.bytes.readUInt32LE(at - 4);
    return slab.bytes.toString('utf8', at, at + length);
  }

  /** Releases a text; its handle will be given to another one. */
  remove(handle: number): void {
    this.#forget(handle);
    this.#slabOf[handle] = undefined;
    this.#free.push(handle);
    this.#squeeze();
  }

  #slab(handle: number): Slab {
    const slab = this.#slabOf[handle];
    if (slab === undefined)
      throw new RampartError(errorCodes.NOT_FOUND, { what: `text ${handle} of an arena` });
    return slab;
  }

  #forget(handle: number): void {
    const slab = this.#slab(handle);
    const length = slab.bytes.readUInt32LE((this.#offsetOf[handle] as number) - 4) + HEADER_BYTES;
    slab.live -= length;
    this.#liveBytes -= length;
    if (slab.live === 0) this.#drop(slab);
  }

  #write(handle: number, text: string): void {
    const length = Buffer.byteLength(text);
    const slab = this.#room(length + HEADER_BYTES);
    const at = this.#head(slab, handle, length);
    slab.bytes.write(text, at, length, 'utf8');
  }

  #head(slab: Slab, handle: number, length: number): number {
    slab.bytes.writeUInt32LE(handle, slab.filled);
    slab.bytes.writeUInt32LE(length, slab.filled + 4);
    const at = slab.filled + HEADER_BYTES;
    const size = length + HEADER_BYTES;
    slab.filled += size;
    slab.live += size;
    this.#filledBytes += size;
    this.#liveBytes += size;
    this.#slabOf[handle] = slab;
    this.#offsetOf[handle] = at;
    return at;
  }

  /** The size of the next slab. */
  get #nextBytes(): number {
    return Math.min(this.#slabBytes, Math.max(FIRST_SLAB_BYTES, this.#liveBytes));
  }

  #room(size: number): Slab {
    const slabBytes = this.#nextBytes;
    if (size > slabBytes / OWN_SLAB_SHARE) return this.#addSlab(size);
    if (this.#current.filled + size > this.#current.bytes.length) {
      const full = this.#current;
      this.#current = this.#addSlab(slabBytes);
      if (full.live === 0) this.#drop(full);
    }
    return this.#current;
  }

  #addSlab(size: number): Slab {
    const slab: Slab = { bytes: Buffer.allocUnsafeSlow(size), filled: 0, live: 0 };
    this.#slabs.add(slab);
    return slab;
  }

  /** Drops a slab without live texts. */
  #drop(slab: Slab): void {
    this.#filledBytes -= slab.filled;
    slab.filled = 0;
    if (slab !== this.#current) this.#slabs.delete(slab);
  }

  /** If there is too much waste, moves the texts of the emptiest slab to the current one. */
  #squeeze(): void {
    const waste = this.#filledBytes - this.#liveBytes;
    if (waste <= this.#nextBytes || waste * WASTE_SHARE <= this.#filledBytes) return;
    let emptiest: Slab | undefined;
    for (const slab of this.#slabs) {
      if (slab === this.#current || slab.live === slab.filled) continue;
      if (emptiest === undefined || slab.live * emptiest.filled < emptiest.live * slab.filled)
        emptiest = slab;
    }
    if (emptiest !== undefined) this.#move(emptiest);
  }

  #move(from: Slab): void {
    for (let at = HEADER_BYTES; at < from.filled;) {
      const handle = from.bytes.readUInt32LE(at - HEADER_BYTES);
      const length = from.bytes.readUInt32LE(at - 4);
      if (this.#slabOf[handle] === from && this.#offsetOf[handle] === at) {
        const size = length + HEADER_BYTES;
        this.#liveBytes -= size;
        const to = this.#room(size);
        from.bytes.copy(to.bytes, this.#head(to, handle, length), at, at + length);
      }
      at += length + HEADER_BYTES;
    }
    from.live = 0;
    this.#drop(from);
  }
}
