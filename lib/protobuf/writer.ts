/**
 * Writes a message from its end to its beginning, so that the content of an inner message is complete before its length
 * is written. Readers ignore the order of fields, but not that of the values of a repeated field, which is kept.
 */
export class MessageWriter {
  #buffer: Buffer;
  /** Offset of the first byte written so far. */
  #start: number;

  /** @param sizeBytes initial size of the buffer, which grows as needed. */
  constructor(sizeBytes = 1024 * 1024) {
    this.#buffer = Buffer.allocUnsafe(sizeBytes);
    this.#start = sizeBytes;
  }

  text(field: number, value: string | undefined): void {
    if (value !== undefined && value !== '') this.#text(field, value);
  }

  texts(field: number, values: readonly string[]): void {
    for (const value of values.toReversed()) this.#text(field, value);
  }

  raw(field: number, value: Uint8Array): void {
    this.#reserve(value.length);
    this.#start -= value.length;
    this.#buffer.set(value, this.#start);
    this.#varint(value.length);
    this.#varint(field * 8 + 2);
  }

  /** An integer of any sign, also zero: a negative number takes all 64 bits. */
  integer(field: number, value: bigint): void {
    const bytes: number[] = [];
    let rest = BigInt.asUintN(64, value);
    for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
    bytes.push(Number(rest));
    this.#reserve(bytes.length);
    this.#start -= bytes.length;
    this.#buffer.set(bytes, this.#start);
    this.#varint(field * 8);
  }

  flag(field: number, value: boolean): void {
    if (!value) return;
    this.#varint(1);
    this.#varint(field * 8);
  }

  /** A non-negative whole number; anything else is omitted. */
  whole(field: number, value: number | undefined): void {
    if (value === undefined || value <= 0 || !Number.isSafeInteger(value)) return;
    this.#varint(value);
    this.#varint(field * 8);
  }

  double(field: number, value: number | undefined): void {
    if (value === undefined || value === 0) return;
    this.#reserve(8);
    this.#start -= 8;
    this.#buffer.writeDoubleLE(value, this.#start);
    this.#varint(field * 8 + 1);
  }

  /** A message whose fields `write` writes. */
  message(field: number, write: () => void): void {
    const end = this.#buffer.length - this.#start;
    write();
    this.#varint(this.#buffer.length - this.#start - end);
    this.#varint(field * 8 + 2);
  }

  /** A message for each value. */
  messages<T>(field: number, values: readonly T[], write: (value: T) => void): void {
    for (const value of values.toReversed()) this.message(field, () => write(value));
  }

  /** The encoded bytes, in memory of their own. */
  bytes(): Buffer {
    return Buffer.from(this.#buffer.subarray(this.#start));
  }

  #text(field: number, value: string): void {
    const size = Buffer.byteLength(value);
    this.#reserve(size);
    this.#start -= size;
    this.#buffer.write(value, this.#start);
    this.#varint(size);
    this.#varint(field * 8 + 2);
  }

  #varint(value: number): void {
    this.#reserve(10);
    let size = 1;
    for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) size++;
    let at = (this.#start -= size);
    let rest = value;
    for (; rest >= 128; rest = Math.floor(rest / 128)) this.#buffer[at++] = (rest % 128) + 128;
    this.#buffer[at] = rest;
  }

  #reserve(sizeBytes: number): void {
    if (this.#start >= sizeBytes) return;
    const old = this.#buffer;
    const grown = Buffer.allocUnsafe(old.length * 2 + sizeBytes);
    const start = grown.length - (old.length - this.#start);
    old.copy(grown, start, this.#start);
    this.#buffer = grown;
    this.#start = start;
  }
}
