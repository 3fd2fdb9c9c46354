/**
 * `JSON.parse` of V8 may mistake a key with an escape for a key of an earlier object: after `{"\\\\":1}`, the
 * key of `{"\
 * ":1}` is a backslash (nodejs/node#63785). The wrong key is the beginning of the text's key, including the
 * backslash of the escape. So a value without backslashes in keys is right; others are read by the careful
 * parser.
 */
import { parseJsonCarefully } from './careful-json.ts';

const [quote, backslash, colon] = [0x22, 0x5c, 0x3a];

type Reviver = (name: string, value: unknown, context?: { readonly source?: string }) => unknown;

/** Like `JSON.parse`, but keeps keys as they are. @throws {SyntaxError} */
export function parseJsonKeys(text: string, reviver?: Reviver): unknown {
  const value: unknown = JSON.parse(text, reviver);
  return hasEscapedKey(text) && hasBackslashKey(value) ? parseJsonCarefully(text).value : value;
}

/** Recurses once per level. */
function hasBackslashKey(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some(hasBackslashKey);
  for (const key in value) {
    if (key.includes('\\')) return true;
    const field = (value as Readonly<Record<string, unknown>>)[key];
    if (typeof field === 'object' && hasBackslashKey(field)) return true;
  }
  return false;
}

/**
 * Whether a key has an escape in it. Costs next to nothing for a text without a backslash. True or false for
 * invalid JSON.
 */
export function hasEscapedKey(text: string): boolean {
  // All backslashes of JSON are in strings: from one, the string's end is found without its beginning.
  for (let at = text.indexOf('\\'); at !== -1; at = text.indexOf('\\', at)) {
    let code = backslash;
    while (code === code && code !== quote) {
      at += code === backslash ? 2 : 1;
      code = text.charCodeAt(at);
    }
    do code = text.charCodeAt(++at);
    while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09);
    if (code === colon) return true;
  }
  return false;
}
