/**
 * Names of files as text. A name is bytes; a report is text that a terminal may be shown and a ConfigMap takes only as UTF-8.
 */
import type { ByteString } from '../model/entry.ts';

const simple = /^(?:[ -[\]-~]|\\(?!\d{3}))*$/;
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
// One character, with as many bytes as its first byte says; or one invalid byte.
const sequence =
  /\\(?=\d{3})|[^\x80-\xff\\]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}|[\x80-\xff]/gu;

/**
 * UTF-8 is decoded. Control characters are shown as in AIDE, as a backslash and three octal digits for each
 * byte, and so is a backslash before three digits, which could be taken for one of these. Unlike in AIDE, the
 * same holds for control characters beyond ASCII, which terminals obey too, 0x1f, which AIDE forgets, and
 * bytes that are not UTF-8, which text cannot contain.
 */
export function printable(name: ByteString): string {
  if (simple.test(name)) return name;
  return name.replace(sequence, (bytes) => {
    if (bytes === '\\') return octal(bytes);
    const text = decoded(bytes);
    // Besides what controls: what turns the text around (Unicode, bidirectional formatting) or breaks the line.
    if (text === undefined || /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u.test(text))
      return octal(bytes);
    return text;
  });
}

function decoded(bytes: string): string | undefined {
  if (bytes.length === 1) return bytes < '\x80' ? bytes : undefined;
  try {
    return decoder.decode(Buffer.from(bytes, 'latin1'));
  } catch {
    // Not UTF-8: surrogates and overlong sequences.
    return undefined;
  }
}

function octal(bytes: string): string {
  let text = '';
  for (let at = 0; at < bytes.length; at++) text += `\\${bytes.charCodeAt(at).toString(8).padStart(3, '0')}`;
  return text;
}
