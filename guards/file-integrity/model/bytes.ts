/** Text as the bytes that the kernel sees. */
import type { ByteString } from './entry.ts';

/** The bytes of a text in UTF-8, one character each. */
export function bytesOf(text: string): ByteString {
  // Most of what is written is ASCII, which is its own bytes.
  return /^[\0-\x7f]*$/.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1');
}
