/**
 * `JSON.parse` of V8 may take a key with an escape for another one that an object before had: after `{"\\\\":1}`, the
 * key of `{"\\n":1}` is a backslash (nodejs/node#63785). Texts with such a key are read by the careful parser.
 *
 * @module
 */
import { parseJsonCarefully } from './careful-json.ts';

const [quote, backslash, colon] = [0x22, 0x5c, 0x3a];

/** As `JSON.parse`, but that keys are what they are. @throws {SyntaxError} */
export function parseJsonKeys(text: string): unknown {
  return hasEscapedKey(text) ? parseJsonCarefully(text).value : JSON.parse(text);
}

/** Whether a key has an escape in it. Costs next to nothing where there is no backslash. True or false for what is no JSON. */
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
