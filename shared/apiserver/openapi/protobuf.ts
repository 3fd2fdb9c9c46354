/**
 * The wire format of protocol buffers, as far as writing needs it.
 *
 * @module
 */

/** Writes the fields of one message. An absent value writes nothing. */
export class Message {
  readonly #parts: Uint8Array[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  text(field: number, value: string | undefined): this {
    return value === undefined || value === '' ? this : this.#delimited(field, Buffer.from(value));
  }

  texts(field: number, values: readonly string[] | undefined): this {
    for (const value of values ?? []) this.#delimited(field, Buffer.from(value));
    return this;
  }

  flag(field: number, value: boolean | undefined): this {
    return value === true ? this.#add(varint(field * 8), varint(1)) : this;
  }

  /** A whole number of 0 or more. */
  whole(field: number, value: number | undefined): this {
    if (value === undefined || value === 0 || !Number.isSafeInteger(value)) return this;
    return value < 0 ? this : this.#add(varint(field * 8), varint(value));
  }

  double(field: number, value: number | undefined): this {
    if (value === undefined || value === 0) return this;
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleLE(value);
    return this.#add(varint(field * 8 + 1), bytes);
  }

  message(field: number, value: Message | undefined): this {
    if (value === undefined) return this;
    this.#add(varint(field * 8 + 2), varint(value.#size));
    for (const part of value.#parts) this.#parts.push(part);
    this.#size += value.#size;
    return this;
  }

  messages(field: number, values: Iterable<Message>): this {
    for (const value of values) this.message(field, value);
    return this;
  }

  bytes(): Buffer {
    return Buffer.concat(this.#parts, this.#size);
  }

  #delimited(field: number, value: Uint8Array): this {
    return this.#add(varint(field * 8 + 2), varint(value.length), value);
  }

  #add(...parts: readonly Uint8Array[]): this {
    for (const part of parts) {
      this.#parts.push(part);
      this.#size += part.length;
    }
    return this;
  }
}

function varint(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 128) {
    bytes.push((rest % 128) + 128);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
  return Uint8Array.from(bytes);
}
