/**
 * The wire format of protobuf (protobuf.dev/programming-guides/encoding): tags, numbers, lengths. Refusals,
 * and mostly their words, follow the decoders that gogo/protobuf generates for Go.
 */
import { isUtf8 } from 'node:buffer';

export const wireTypes = { varint: 0, fixed64: 1, bytes: 2, startGroup: 3, endGroup: 4, fixed32: 5 } as const;

const unexpectedEnd = 'unexpected EOF';

/** Reads forward, never past {@link MessageReader.end}. Each method throws the error of `refuse` if the bytes are not as expected. */
export class MessageReader {
  /** Where the next byte is read. */
  at = 0;
  /** Where the message being read ends. */
  end: number;
  /** Field number of the last tag. */
  fieldNumber = 0;
  wireType = 0;
  readonly #bytes: Buffer;
  readonly #refuse: (why: string) => Error;
  /** The varint that was read last, in two unsigned halves. */
  #low = 0;
  #high = 0;

  /** @param refuse makes the error for an invalid message, from words such as `unexpected EOF`. */
  constructor(bytes: Buffer, refuse: (why: string) => Error) {
    this.#bytes = bytes;
    this.#refuse = refuse;
    this.end = bytes.length;
  }

  #varint(): void {
    const bytes = this.#bytes;
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 64; shift += 7) {
      if (this.at >= this.end) throw this.#refuse(unexpectedEnd);
      const byte = bytes[this.at++] ?? 0;
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >>> 4;
      } else high |= bits << (shift - 32);
      if (byte < 0x80) {
        this.#low = low >>> 0;
        this.#high = high >>> 0;
        return;
      }
    }
    throw this.#refuse('proto: integer overflow');
  }

  /** Reads {@link MessageReader.fieldNumber} and {@link MessageReader.wireType}. @param message for the error. */
  tag(message: string): void {
    this.#varint();
    this.wireType = this.#low & 7;
    // As in Go: the lower bits of the number, as an int32.
    this.fieldNumber = (this.#low >>> 3) | (this.#high << 29);
    if (this.wireType === wireTypes.endGroup) {
      throw this.#refuse(`proto: ${message}: wiretype end group for non-group`);
    }
    if (this.fieldNumber <= 0) {
      throw this.#refuse(`proto: ${message}: illegal tag ${this.fieldNumber} (wire type ${this.wireType})`);
    }
  }

  bool(): boolean {
    this.#varint();
    return (this.#low | this.#high) !== 0;
  }

  int32(): number {
    this.#varint();
    return this.#low | 0;
  }

  /** A `bigint` if a `number` would not be exact. */
  int64(): number | bigint {
    this.#varint();
    const high = this.#high | 0;
    const value = high * 2 ** 32 + this.#low;
    return Number.isSafeInteger(value) ? value : (BigInt(high) << 32n) | BigInt(this.#low);
  }

  double(): number {
    const start = this.#pass(8);
    return this.#bytes.readDoubleLE(start);
  }

  /** The length of the following value, which must be complete, in bytes. */
  length(): number {
    this.#varint();
    if (this.#high !== 0) {
      if (this.#high >= 2 ** 31) {
        throw this.#refuse('proto: negative length found during unmarshaling');
      }
      throw this.#refuse(unexpectedEnd);
    }
    if (this.#low > this.end - this.at) throw this.#refuse(unexpectedEnd);
    return this.#low;
  }

  /** Calls `read` within the bounds of a message, or of packed numbers, which follow with their length. */
  within<T>(read: () => T): T {
    const outer = this.end;
    const length = this.length();
    this.end = this.at + length;
    const result = read();
    this.end = outer;
    return result;
  }

  /** @param field for the error. */
  text(field: string): string {
    const length = this.length();
    const start = this.#pass(length);
    const text = this.#bytes.toString('utf8', start, this.at);
    // Invalid UTF-8 is decoded as this character, which may also have been sent.
    if (text.includes('\ufffd') && !isUtf8(this.#bytes.subarray(start, this.at))) {
      throw this.#refuse(`proto: field ${field} contains invalid UTF-8`);
    }
    return text;
  }

  /** A view, not a copy. */
  bytes(): Buffer {
    const start = this.#pass(this.length());
    return this.#bytes.subarray(start, this.at);
  }

  /** Skips the value of the last tag, including groups with all their contents. */
  skip(): void {
    let groups = 0;
    let { wireType } = this;
    for (;;) {
      if (wireType === wireTypes.varint) this.#varint();
      else if (wireType === wireTypes.fixed64) this.#pass(8);
      else if (wireType === wireTypes.bytes) this.#pass(this.length());
      else if (wireType === wireTypes.fixed32) this.#pass(4);
      else if (wireType === wireTypes.startGroup) groups++;
      else if (wireType === wireTypes.endGroup) groups--;
      else throw this.#refuse(`proto: illegal wireType ${wireType}`);
      if (groups === 0) return;
      this.#varint();
      wireType = this.#low & 7;
    }
  }

  /** Advances by `length` bytes; returns the previous position. */
  #pass(length: number): number {
    const start = this.at;
    if (length > this.end - start) throw this.#refuse(unexpectedEnd);
    this.at = start + length;
    return start;
  }
}
