/**
 * Paths as one expression for AIDE's `--limit`.
 *
 * @module
 */
import type { ByteString } from '../entry.ts';

/** An argument of a program is at most 128 KiB (execve(2)), and PCRE2 takes expressions of 64 KiB, compiled. */
const longest = 16 * 1024;

/** `undefined` where there are too many: then everything has to be looked at. */
export function limitFor(paths: readonly ByteString[]): string | undefined {
  if (paths.length === 0) return undefined;
  let size = 0;
  const parts: string[] = [];
  for (const path of paths) {
    const part = path.replace(
      /[^A-Za-z0-9/_]/g,
      (byte) => `\\x${byte.charCodeAt(0).toString(16).padStart(2, '0')}`,
    );
    size += part.length + 1;
    if (size > longest) return undefined;
    parts.push(part);
  }
  return `(?:${parts.join('|')})$`;
}
