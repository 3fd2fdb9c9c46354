/** A list of the API, taken apart while its bytes arrive. */
import { isAscii } from 'node:buffer';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { JsonScanner } from './json-scanner.ts';

/** The parser's next expectation. */
const expect = {
  start: 0,
  keyOrEnd: 1,
  key: 2,
  inKey: 3,
  colon: 4,
  value: 5,
  inValue: 6,
  commaOrEnd: 7,
  itemOrEnd: 8,
  item: 9,
  inItem: 10,
  itemCommaOrEnd: 11,
  nothing: 12,
} as const;

const [QUOTE, COMMA, COLON] = [0x22, 0x2c, 0x3a];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

const MAX_ITEM_BYTES = 16 * 1024 * 1024;

/**
 * Finds the items of a list document, `{"items": [...], "metadata": {...}, ...}` with its fields in any order, in
 * bytes that may be cut anywhere. Each item is a text of its own; whether it is valid JSON shows when it is parsed.
 *
 * @example
 * for await (const chunk of response) for (const item of decoder.push(chunk)) take(JSON.parse(item));
 * const { metadata } = decoder.end();
 */
export class ListDecoder {
  readonly #maxItemBytes: number;
  readonly #decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  readonly #scanner = new JsonScanner();
  readonly #fields = new Map<string, unknown>();
  #expect: number = expect.start;
  #key = '';
  #hasItems = false;
  /** The beginning of the value that continues in the next chunk. */
  #parts: Uint8Array[] = [];
  #partBytes = 0;

  /** An item, and any other field, may have up to `maxItemBytes` (default 16 MiB); no more is ever kept. */
  constructor(maxItemBytes: number = MAX_ITEM_BYTES) {
    this.#maxItemBytes = maxItemBytes;
  }

  /** The other fields of the list, as far as they have come. */
  get fields(): ReadonlyMap<string, unknown> {
    return this.#fields;
  }

  /**
   * The items that `chunk` completes. The chunk must not be written to before the next one comes.
   *
   * @throws {RampartError} `DECODE` for what is not a JSON object with a list in `items`, `LIMIT` for an item that is too
   *   long; items before it have been yielded.
   */
  *push(chunk: Uint8Array): Generator<string, void> {
    for (let at = 0; at < chunk.length;) {
      if (this.#expect === expect.inItem) {
        const end = this.#scanner.scan(chunk, at);
        if (end === -1) return this.#keep(chunk.subarray(at));
        const item = this.#text(chunk.subarray(at, end));
        this.#expect = expect.itemCommaOrEnd;
        at = end;
        yield item;
      } else if (this.#expect === expect.inKey || this.#expect === expect.inValue) {
        const end = this.#scanner.scan(chunk, at);
        if (end === -1) return this.#keep(chunk.subarray(at));
        this.#field(this.#text(chunk.subarray(at, end)));
        at = end;
      } else {
        at += this.#step(chunk[at] as number);
      }
    }
  }

  /**
   * After the last chunk: the fields of the list other than its items.
   *
   * @throws {RampartError} `DECODE` when the document is not complete, or has no `items`.
   */
  end(): ReadonlyMap<string, unknown> {
    if (this.#expect !== expect.nothing) throw broken('it ends in the middle');
    if (!this.#hasItems) throw broken('it has no items');
    return this.#fields;
  }

  /** Handles one byte between values. Returns 1 if the byte is consumed, 0 if it is the first byte of a value. */
  #step(byte: number): 0 | 1 {
    if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) return 1;
    switch (this.#expect) {
      case expect.start:
        return this.#go(byte === OPEN_OBJECT, expect.keyOrEnd, byte);
      case expect.keyOrEnd:
        if (byte === CLOSE_OBJECT) return this.#go(true, expect.nothing, byte);
        return this.#begin(byte === QUOTE, expect.inKey, byte);
      case expect.key:
        return this.#begin(byte === QUOTE, expect.inKey, byte);
      case expect.colon:
        return this.#go(byte === COLON, expect.value, byte);
      case expect.value:
        if (this.#key !== 'items' || byte !== OPEN_ARRAY) return this.#begin(true, expect.inValue, byte);
        return this.#beginItems(byte);
      case expect.commaOrEnd:
        return this.#go(
          byte === COMMA || byte === CLOSE_OBJECT,
          byte === COMMA ? expect.key : expect.nothing,
          byte,
        );
      case expect.itemOrEnd:
        if (byte === CLOSE_ARRAY) return this.#go(true, expect.commaOrEnd, byte);
        return this.#begin(true, expect.inItem, byte);
      case expect.item:
        return this.#begin(true, expect.inItem, byte);
      case expect.itemCommaOrEnd:
        return this.#go(
          byte === COMMA || byte === CLOSE_ARRAY,
          byte === COMMA ? expect.item : expect.commaOrEnd,
          byte,
        );
      default:
        return this.#go(false, expect.nothing, byte);
    }
  }

  #go(allowed: boolean, next: number, byte: number): 1 {
    if (!allowed) throw unexpected(byte);
    this.#expect = next;
    return 1;
  }

  #begin(allowed: boolean, next: number, byte: number): 0 {
    if (!allowed || !this.#scanner.begin(byte)) throw unexpected(byte);
    this.#expect = next;
    return 0;
  }

  #beginItems(byte: number): 1 {
    // JSON.parse would take the last `items`, but those of the first have been handed out.
    if (this.#hasItems) throw broken('it has duplicate items');
    this.#hasItems = true;
    return this.#go(true, expect.itemOrEnd, byte);
  }

  /** A key, or the value of one. */
  #field(text: string): void {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      throw broken('a field is not JSON');
    }
    if (this.#expect === expect.inKey) {
      this.#key = value as string;
      this.#expect = expect.colon;
      return;
    }
    // Go encodes an empty list as null.
    if (this.#key === 'items') {
      if (value !== null || this.#hasItems) throw broken('its items are not a list');
      this.#hasItems = true;
    } else {
      this.#fields.set(this.#key, value);
    }
    this.#expect = expect.commaOrEnd;
  }

  #keep(part: Uint8Array): void {
    this.#partBytes += part.length;
    if (this.#partBytes > this.#maxItemBytes) throw this.#tooLong();
    this.#parts.push(part);
  }

  #text(last: Uint8Array): string {
    if (this.#partBytes + last.length > this.#maxItemBytes) throw this.#tooLong();
    const bytes = this.#parts.length === 0 ? last : Buffer.concat([...this.#parts, last]);
    this.#parts = [];
    this.#partBytes = 0;
    // Much faster than the decoder, and most objects are ASCII.
    if (isAscii(bytes)) {
      return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
    }
    try {
      return this.#decoder.decode(bytes);
    } catch (error) {
      throw broken('it is not UTF-8', error);
    }
  }

  #tooLong(): RampartError {
    this.#parts = [];
    return new RampartError(errorCodes.LIMIT, {
      what: `an item of over ${this.#maxItemBytes} bytes in a list from the Kubernetes API`,
    });
  }
}

function unexpected(byte: number): RampartError {
  return broken(`byte 0x${byte.toString(16).padStart(2, '0')} is not allowed here`);
}

function broken(why: string, cause?: unknown): RampartError {
  return new RampartError(errorCodes.DECODE, { what: 'a list from the Kubernetes API', why, cause });
}
