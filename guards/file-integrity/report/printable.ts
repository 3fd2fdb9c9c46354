/** Converts file names to text. A name is bytes, but a report may be shown on a terminal, and a ConfigMap accepts only UTF-8. */
import type { ByteString } from '../model/entry.ts';

const simple = /^(?:[ -[\]-~]|\\(?!\d{3}))*$/;
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
// Matches one character, with as many bytes as its first byte requires, or else one invalid byte.
const sequence =
  /\\(?=\d{3})|[^\x80-\xff\\]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}|[\x80-\xff]/gu;

/**
 * Decodes UTF-8. Control characters are escaped as in AIDE, with a backslash and three octal digits for each byte. So
 * is a backslash before three digits, which would look like such an escape. Unlike in AIDE, the same is done for 0x1f,
 * for control characters beyond ASCII, which terminals obey too, and for bytes that are not UTF-8, which text cannot
 * contain.
 */
export function printable(name: ByteString): string {
  if (simple.test(name)) return name;
  return name.replace(sequence, (bytes) => {
    if (bytes === '\\') return octal(bytes);
    const text = decoded(bytes);
    // Besides control characters: those that change the direction of text (Unicode, bidirectional formatting) or break
    // the line.
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
    // Not valid UTF-8: surrogates and overlong sequences.
    return undefined;
  }
}

function octal(bytes: string): string {
  let text = '';
  for (let at = 0; at < bytes.length; at++) text += `\\${bytes.charCodeAt(at).toString(8).padStart(3, '0')}`;
  return text;
}
