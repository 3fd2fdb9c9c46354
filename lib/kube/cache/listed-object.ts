/**
 * Items of lists, parsed without `metadata.managedFields`: about half of a pod's JSON, and more than half of the time to parse it. Some
 * keys there contain values of the object (`k:{"ip":"10.0.0.2"}`), and V8 creates a hidden class for each new key.
 */
import type { KubeObject } from '../object/object.ts';

const NAME = '"managedFields":';
/** The value that replaces the list. No server sends it: if it is found in the metadata, the list was cut out there. */
const LEFT_OUT = 0;
const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

interface Listed {
  /** The parsed value: an object if it has `metadata`. */
  readonly value: unknown;
  /** Whether `metadata.managedFields` was in the text. */
  readonly isShortened: boolean;
}

/** @throws {SyntaxError} for what is not JSON, outside of the fields that are left out. */
export function parseListed(text: string): Listed {
  const short = withoutFirstList(text);
  if (short !== undefined) {
    const value: unknown = JSON.parse(short);
    const metadata = (value as Partial<KubeObject> | null)?.metadata as
      { managedFields?: unknown } | null | undefined;
    if (metadata?.managedFields === LEFT_OUT) {
      delete metadata.managedFields;
      return { value, isShortened: true };
    }
  }
  // There is no such list, or the one that was found belongs to another part of the object.
  return { value: JSON.parse(text), isShortened: false };
}

/** The text with its first `managedFields` list replaced; undefined if it has none. */
function withoutFirstList(text: string): string | undefined {
  const at = text.indexOf(`${NAME}[`);
  if (at === -1) return undefined;
  const from = at + NAME.length;
  const end = endOfList(text, from);
  return end === -1 ? undefined : `${text.slice(0, from)}${LEFT_OUT}${text.slice(end)}`;
}

/** The index after the list that begins at `from`, or -1. `indexOf`, which is native, skips strings: most of this code is interpreted. */
function endOfList(text: string, from: number): number {
  const { length } = text;
  let depth = 0;
  for (let at = from; at < length; at++) {
    const character = text.charCodeAt(at);
    if (character === QUOTE) {
      at = endOfString(text, at + 1);
      if (at === -1) return -1;
    } else if (character === OPEN_ARRAY || character === OPEN_OBJECT) depth++;
    else if ((character === CLOSE_ARRAY || character === CLOSE_OBJECT) && --depth === 0) return at + 1;
  }
  return -1;
}

/** The index of the quote that ends the string whose first character is at `from`, or -1. */
function endOfString(text: string, from: number): number {
  for (let at = text.indexOf('"', from); at !== -1; at = text.indexOf('"', at + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return at;
  }
  return -1;
}
