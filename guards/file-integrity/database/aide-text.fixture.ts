/** Writes names and times as AIDE does: see aide-text.ts. */
import type { ByteString } from '../model/entry.ts';

const unsafe = /[^!$&()*+,\-./0-9;=?A-Z_a-z]/g;

export function encodeName(name: ByteString): string {
  return name.replace(unsafe, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
}

export function encodeOptionalName(name: ByteString | undefined): string {
  if (name === undefined) return '0';
  if (name === '') return '0-';
  return name.startsWith('0') ? `0${encodeName(name)}` : encodeName(name);
}

export function encodeTime(timeS: number): string {
  return timeS === 0 ? '0' : Buffer.from(String(timeS)).toString('base64');
}
