/** Converts text to the bytes that the kernel uses. */
import type { ByteString } from './entry.ts';

/** The UTF-8 bytes of a text, one character for each byte. */
export function bytesOf(text: string): ByteString {
  // Most texts are ASCII, which does not change.
  return /^[\0-\x7f]*$/.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1');
}
