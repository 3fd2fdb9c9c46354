/** The metadata of a stored object as a part of its text, so that nothing else has to be parsed. */
import type { StoredObject } from '../store/object.ts';

/** With what metadata are stored: see `storedText`. */
const start = '{"resourceVersion":"';
const [quote, backslash, opening, closing] = [0x22, 0x5c, 0x7b, 0x7d];

/** JSON of the metadata of a stored object; undefined if its text does not begin them with the version. */
export function metadataText({ text, versionAt }: StoredObject): string | undefined {
  const begin = versionAt - start.length;
  if (begin < 0 || !text.startsWith(start, begin)) return undefined;
  let depth = 1;
  // The version is a string that has begun.
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
