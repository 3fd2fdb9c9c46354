/** Finds where a JSON value ends, in bytes that come in pieces. */

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * Finds the end of one value after the other. It follows only strings and the depth of brackets: for valid
 * JSON it finds the end, and parsing shows whether it was valid. It looks for ASCII bytes only, so a piece
 * may end inside a character.
 */
export class JsonScanner {
  /** Number of open brackets; always 0 within a number, `true`, `false` or `null`. */
  #depth = 0;
  #inString = false;
  #escaped = false;

  /** Starts a value, given its first byte; returns whether a value can begin with it. Pass that byte to `scan` again. */
  begin(byte: number): boolean {
    this.#depth = 0;
    this.#inString = false;
    this.#escaped = false;
    const bracket = byte === OPEN_OBJECT || byte === OPEN_ARRAY || byte === QUOTE;
    // A number, true, false, null.
    return bracket || byte === 0x2d || (byte >= 0x30 && byte <= 0x39) || (byte >= 0x61 && byte <= 0x7a);
  }

  /** Continues in `bytes` from `at`. @returns the index after the value, or -1 if it continues in the next piece */
  scan(bytes: Uint8Array, at: number): number {
    const { length } = bytes;
    let depth = this.#depth;
    let index = at;
    while (index < length) {
      if (this.#inString) {
        index = this.#endOfString(bytes, index);
        if (index === -1) break;
        if (depth === 0) return index;
      }
      let byte = 0;
      // The inner loop runs over every byte outside of strings, so it does nothing but look.
      while (index < length) {
        byte = bytes[index++] as number;
        if (byte === QUOTE) {
          this.#inString = true;
          break;
        }
        if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
          depth++;
        } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
          if (depth === 0) return index - 1;
          if (--depth === 0) return index;
        } else if (depth === 0 && (byte === COMMA || byte <= 0x20)) {
          return index - 1;
        }
      }
    }
    this.#depth = depth;
    return -1;
  }

  /** The index after the quote that ends the string, or -1. */
  #endOfString(bytes: Uint8Array, at: number): number {
    const { length } = bytes;
    let index = at;
    if (this.#escaped && index < length) {
      this.#escaped = false;
      index++;
    }
    while (index < length) {
      const byte = bytes[index++];
      if (byte === QUOTE) {
        this.#inString = false;
        return index;
      }
      if (byte === BACKSLASH) {
        if (index === length) this.#escaped = true;
        index++;
      }
    }
    return -1;
  }
}
