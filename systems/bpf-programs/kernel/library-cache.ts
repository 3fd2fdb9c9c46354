/**
 * /etc/ld.so.cache: which file a library's name stands for (glibc's dl-cache.h, since 2.2).
 *
 * @module
 */

const MAGIC = 'glibc-ld.so.cache1.1';
const HEADER_BYTES = 48;
const ENTRY_BYTES = 24;

export interface CachedLibrary {
  /** `libc.so.6` */
  readonly name: string;
  readonly path: string;
}

/** In the order of the file. What is malformed has no libraries. */
export function librariesOf(cache: Buffer): readonly CachedLibrary[] {
  // Up to glibc 2.31 another table may lie before it.
  const begin = cache.indexOf(MAGIC);
  if (begin < 0 || cache.length < begin + HEADER_BYTES) return [];
  const table = cache.subarray(begin);
  const count = Math.min(table.readUInt32LE(20), Math.floor((table.length - HEADER_BYTES) / ENTRY_BYTES));
  const textAt = (offset: number): string => {
    const end = table.indexOf(0, offset);
    return end < 0 ? '' : table.toString('latin1', offset, end);
  };
  return Array.from({ length: count }, (_, index) => {
    const at = HEADER_BYTES + index * ENTRY_BYTES;
    return { name: textAt(table.readUInt32LE(at + 4)), path: textAt(table.readUInt32LE(at + 8)) };
  }).filter(({ path }) => path.startsWith('/'));
}
