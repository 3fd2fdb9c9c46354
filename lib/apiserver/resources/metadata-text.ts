/** Finds the metadata in the text of a stored object, so that the rest need not be parsed. */
import type { StoredObject } from '../store/object.ts';

/** The beginning of stored metadata: see `storedText`. */
const start = '{"resourceVersion":"';
const [quote, backslash, opening, closing] = [0x22, 0x5c, 0x7b, 0x7d];

/** JSON of the metadata of a stored object; undefined if they do not begin with the version in its text. */
export function metadataText({ text, versionAt }: StoredObject): string | undefined {
  const begin = versionAt - start.length;
  if (begin < 0 || !text.startsWith(start, begin)) return undefined;
  let depth = 1;
  // Starts after the closing quote of the version.
  let at = text.indexOf('"', versionAt) + 1;
  for (; depth > 0 && at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) {
      for (at++; text.charCodeAt(at) !== quote && at < text.length; at++) {
        if (text.charCodeAt(at) === backslash) at++;
      }
    } else if (code === opening) depth++;
    else if (code === closing) depth--;
  }
  return depth === 0 ? text.slice(begin, at) : undefined;
}
