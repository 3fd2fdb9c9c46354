/** Writes and reads numbers and byte strings compactly (LEB128: seven bits in each byte, the low ones first). */

/** The bytes end too early, or contain an impossible value. */
export class MalformedBytes extends Error {}

/** Marks a number that follows in another encoding: a file may have a size of 2 ** 63 or an extreme time, perhaps on purpose. */
const noInteger = Number.MAX_SAFE_INTEGER;

/** Whether the time may be a base for others, see {@link ByteWriter.time}. */
export function isUsualTime(timeS: number): boolean {
  return Number.isInteger(timeS) && Math.abs(timeS) < 2 ** 50;
}

/** Writes the characters of a text, starting at `from`, as one byte each. For short texts this is faster than a call into C++. */
export function putLatin1(bytes: Uint8Array, at: number, text: string, from = 0): void {
  for (let i = from; i < text.length; i++) bytes[at + i - from] = text.charCodeAt(i);
}

export class ByteWriter {
  #bytes: Buffer;
  length = 0;

  constructor(capacityBytes = 1024) {
    this.#bytes = Buffer.allocUnsafeSlow(capacityBytes);
  }

  /** The written bytes, valid until the next write. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.length);
  }

  clear(): void {
    this.length = 0;
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.length++] = value;
  }

  /** Writes an integer from 0 to 2 ** 53 - 1. */
  unsigned(value: number): void {
    this.#reserve(10);
    const bytes = this.#bytes;
    let at = this.length;
    let rest = value;
    while (rest >= 0x80000000) {
      bytes[at++] = (rest % 128) | 0x80;
      rest = Math.floor(rest / 128);
    }
    while (rest >= 0x80) {
      bytes[at++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    bytes[at++] = rest;
    this.length = at;
  }

  /** Writes an integer from -(2 ** 52) to 2 ** 52 - 1. */
  signed(value: number): void {
    this.unsigned(value < 0 ? -value * 2 - 1 : value * 2);
  }

  /** Writes any number; an integer from 0 to 2 ** 53 - 2 takes few bytes. */
  number(value: number): void {
    if (value >= 0 && value < noInteger && Number.isInteger(value)) return this.unsigned(value);
    this.unsigned(noInteger);
    this.#double(value);
  }

  /** Writes any time in seconds. A time within 35 million years of 1970 is written as its difference to `baseS`, in few bytes. */
  time(value: number, baseS: number): void {
    if (isUsualTime(value)) return this.signed(value - baseS);
    this.unsigned(noInteger);
    this.#double(value);
  }

  #double(value: number): void {
    this.#reserve(8);
    this.#bytes.writeDoubleLE(value, this.length);
    this.length += 8;
  }

  /** Writes an integer from 0 to 2 ** 64 - 1. */
  unsigned64(value: bigint): void {
    if (value <= Number.MAX_SAFE_INTEGER) return this.unsigned(Number(value));
    this.#reserve(10);
    let rest = value;
    while (rest >= 0x80n) {
      this.#bytes[this.length++] = Number(rest & 0x7fn) | 0x80;
      rest >>= 7n;
    }
    this.#bytes[this.length++] = Number(rest);
  }

  raw(value: Uint8Array): void {
    this.#reserve(value.length);
    this.#bytes.set(value, this.length);
    this.length += value.length;
  }

  /** Writes the length, then the bytes. */
  block(value: Uint8Array): void {
    this.unsigned(value.length);
    this.raw(value);
  }

  /** Writes the length, then the characters from `start` on, as one byte each. */
  latin1(value: string, start = 0): void {
    const length = value.length - start;
    this.unsigned(length);
    this.#reserve(length);
    putLatin1(this.#bytes, this.length, value, start);
    this.length += length;
  }

  /** Writes the length in UTF-8, then the text in UTF-8. */
  text(value: string): void {
    this.block(Buffer.from(value, 'utf8'));
  }

  #reserve(more: number): void {
    if (this.length + more <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(this.#bytes.length * 2, this.length + more));
    this.#bytes.copy(grown, 0, 0, this.length);
    this.#bytes = grown;
  }
}

/** @throws MalformedBytes from every method, if the bytes do not contain the expected value. */
export class ByteReader {
  readonly #bytes: Buffer;
  at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get ended(): boolean {
    return this.at >= this.#bytes.length;
  }

  byte(): number {
    const value = this.#bytes[this.at++];
    if (value === undefined) throw new MalformedBytes('it ends in the middle of an entry');
    return value;
  }

  unsigned(): number {
    let byte = this.byte();
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    let factor = 128;
    do {
      byte = this.byte();
      value += (byte & 0x7f) * factor;
      factor *= 128;
    } while (byte >= 0x80 && factor < 2 ** 56);
    if (byte >= 0x80 || value > Number.MAX_SAFE_INTEGER) throw new MalformedBytes('a number is too large');
    return value;
  }

  number(): number {
    const value = this.unsigned();
    return value === noInteger ? this.raw(8).readDoubleLE() : value;
  }

  time(baseS: number): number {
    const value = this.unsigned();
    if (value === noInteger) return this.raw(8).readDoubleLE();
    return baseS + (value % 2 === 0 ? value / 2 : -(value + 1) / 2);
  }

  unsigned64(): bigint {
    let low = 0;
    let factor = 1;
    for (let i = 0; i < 7; i++) {
      const byte = this.byte();
      low += (byte & 0x7f) * factor;
      if (byte < 0x80) return BigInt(low);
      factor *= 128;
    }
    let value = BigInt(low);
    for (let shift = 49n; shift < 70n; shift += 7n) {
      const byte = this.byte();
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) {
        if (value >= 1n << 64n) break;
        return value;
      }
    }
    throw new MalformedBytes('a number is too large');
  }

  /** A view of these bytes, which keeps the whole buffer in memory. */
  raw(length: number): Buffer {
    const end = this.at + length;
    if (end > this.#bytes.length) throw new MalformedBytes('it ends in the middle of an entry');
    const value = this.#bytes.subarray(this.at, end);
    this.at = end;
    return value;
  }

  block(): Buffer {
    return this.raw(this.unsigned());
  }

  latin1(): string {
    const length = this.unsigned();
    const end = this.at + length;
    if (end > this.#bytes.length) throw new MalformedBytes('it ends in the middle of an entry');
    const value = this.#bytes.toString('latin1', this.at, end);
    this.at = end;
    return value;
  }

  /** Copies the bytes of a block to `target`. */
  into(target: Buffer, targetAt: number, length: number): void {
    const end = this.at + length;
    if (end > this.#bytes.length) throw new MalformedBytes('it ends in the middle of an entry');
    this.#bytes.copy(target, targetAt, this.at, end);
    this.at = end;
  }

  text(): string {
    return this.block().toString('utf8');
  }
}
