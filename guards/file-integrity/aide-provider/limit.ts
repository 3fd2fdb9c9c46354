/** Builds one expression for AIDE's `--limit` from paths. */
import { isUtf8 } from 'node:buffer';
import type { ByteString } from '../model/entry.ts';

/** Below the limits: an argument of a program has at most 128 KiB (execve(2)), and a compiled PCRE2 expression at most 64 KiB. */
const longest = 16 * 1024;

/** `undefined` if there are too many paths: then everything has to be checked. */
export function limitFor(paths: readonly ByteString[]): string | undefined {
  if (paths.length === 0) return undefined;
  let size = 0;
  const parts: string[] = [];
  for (const path of paths) {
    const part = asExpression(path);
    size += Buffer.byteLength(part) + 1;
    if (size > longest) return undefined;
    parts.push(part);
  }
  return `(?:${parts.join('|')})$`;
}

/**
 * Does not escape bytes beyond ASCII: some versions of AIDE match bytes and others characters, and for the latter an
 * escaped byte is a character of its own. They cannot match a name that is not UTF-8 with any expression.
 */
function asExpression(path: ByteString): string {
  const bytes = Buffer.from(path, 'latin1');
  const text = isUtf8(bytes) ? bytes.toString('utf8') : undefined;
  return (text ?? path).replace(
    text === undefined ? /[^A-Za-z0-9/_]/g : /[^A-Za-z0-9/_\u0080-\u{10ffff}]/gu,
    (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
}
