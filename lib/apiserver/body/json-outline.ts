/**
 * One pass over the bytes of a JSON text, for facts that `JSON.parse` does not give: its depth, the number of
 * its fields, and whether `JSON.parse` would silently change a value.
 */

interface JsonOutline {
  /** Number of fields in the text; greater than in the parsed value if a field is repeated. */
  readonly fields: number;
  /** Levels of lists and objects. */
  readonly depth: number;
  /**
   * Whether there is a number or a string that `JSON.parse` may change: an integer of 16 digits or more, an exponent, an
   * escaped surrogate, a key with an escape (nodejs/node#63785).
   */
  readonly isDelicate: boolean;
}

const quote = 0x22;
const backslash = 0x5c;

/** Returns facts for any bytes; they are true for JSON, up to its first error. */
export function outlineJson(bytes: Uint8Array): JsonOutline {
  const end = bytes.length;
  let fields = 0;
  let depth = 0;
  let level = 0;
  let isDelicate = false;
  let isEscaped = false;
  for (let at = 0; at < end; at++) {
    const byte = bytes[at] as number;
    if (byte === quote) {
      isEscaped = false;
      for (at++; at < end; at++) {
        const inside = bytes[at] as number;
        if (inside === quote) break;
        if (inside === backslash) {
          at++;
          isEscaped = true;
          // A surrogate: \uD800 to \uDFFF
          if (bytes[at] === 0x75 && ((bytes[at + 1] ?? 0) | 0x20) === 0x64) isDelicate = true;
        }
      }
    } else if (byte === 0x3a) {
      fields++;
      // The string before a colon is a key.
      if (isEscaped) isDelicate = true;
    } else if (byte === 0x7b || byte === 0x5b) {
      level++;
      if (level > depth) depth = level;
    } else if (byte === 0x7d || byte === 0x5d) level--;
    else if (byte >= 0x30 && byte <= 0x39) {
      const start = at;
      let next: number;
      do next = bytes[++at] ?? 0;
      while (next >= 0x30 && next <= 0x39);
      if (at - start >= 16 || (next | 0x20) === 0x65) isDelicate = true;
      at--;
    }
  }
  return { fields, depth, isDelicate };
}

/** Number of fields of a value, including nested ones. Recurses once per level. */
export function countFields(value: unknown): number {
  let count = 0;
  if (typeof value !== 'object' || value === null) return 0;
  if (Array.isArray(value)) {
    for (const item of value) if (typeof item === 'object') count += countFields(item);
    return count;
  }
  // Faster than Object.entries, and parsed JSON inherits no fields.
  for (const name in value) {
    count++;
    const field = (value as Readonly<Record<string, unknown>>)[name];
    if (typeof field === 'object') count += countFields(field);
  }
  return count;
}
