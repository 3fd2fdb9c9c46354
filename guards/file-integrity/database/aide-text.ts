/**
 * How AIDE writes names and times into its databases.
 *
 * In a name, each byte that is not printable ASCII, or that has a meaning in the format, is written as `%` and two
 * hexadecimal digits. The target of a link, which may be absent, is `0` if it is absent, `0-` if it is empty, and has a
 * `0` in front if it starts with `0`. A time is `0` or the base64 of its decimal digits; since 0.19, it is the digits
 * themselves.
 */
import type { ByteString } from '../model/entry.ts';

const escape = /%([0-9A-Fa-f]{2})/g;

export function decodeName(text: string): ByteString {
  if (!text.includes('%')) return text;
  return text.replace(escape, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}

export function decodeOptionalName(text: string): ByteString | undefined {
  if (text === '0') return undefined;
  if (text.startsWith('0-')) return '';
  return decodeName(text.startsWith('00') ? text.slice(1) : text);
}

/** Undefined if it is invalid. */
export function decodeTime(text: string): number | undefined {
  // The two forms cannot be confused: the base64 of digits begins with a letter.
  if (/^-?\d{1,20}$/.test(text)) return Number(text);
  const digits = Buffer.from(text, 'base64').toString('latin1');
  return /^-?\d{1,20}$/.test(digits) ? Number(digits) : undefined;
}
