/** Archives of tar as others write them: GNU's format and pax. */

const BLOCK_BYTES = 512;

/** Types of headers that are about the entry after them: pax, and GNU's long names. */
const prefixes: ReadonlySet<string> = new Set(['x', 'L', 'K']);

/**
 * The archive without some of its entries; the bytes of the others do not change.
 *
 * @param isLeftOut - Given the path in the archive: `./etc/`.
 * @throws {RangeError} if it is not a tar archive
 */
export function withoutEntries(archive: Uint8Array, isLeftOut: (path: string) => boolean): Uint8Array {
  const kept: Uint8Array[] = [];
  let start = 0;
  let longName: string | undefined;
  for (let at = 0; at + BLOCK_BYTES <= archive.length && archive[at] !== 0;) {
    const header = Buffer.from(archive.buffer, archive.byteOffset + at, BLOCK_BYTES);
    if (header.toString('latin1', 257, 262) !== 'ustar')
      throw new RangeError(`no header of tar at byte ${at}`);
    const sizeBytes = Number.parseInt(header.toString('latin1', 124, 136), 8);
    const end = at + BLOCK_BYTES + Math.ceil(sizeBytes / BLOCK_BYTES) * BLOCK_BYTES;
    const type = header.toString('latin1', 156, 157);
    const content = (): string =>
      Buffer.from(archive.buffer, archive.byteOffset + at + BLOCK_BYTES, sizeBytes).toString();
    if (type === 'L') longName = untilZero(content());
    else if (type === 'x') longName = /^\d+ path=(.*)$/m.exec(content())?.[1] ?? longName;
    else if (!prefixes.has(type)) {
      if (!isLeftOut(longName ?? nameIn(header))) kept.push(archive.subarray(start, end));
      longName = undefined;
      start = end;
    }
    at = end;
  }
  return Buffer.concat([...kept, Buffer.alloc(2 * BLOCK_BYTES)]);
}

function nameIn(header: Buffer): string {
  const name = untilZero(header.toString('utf8', 0, 100));
  // GNU has another field there.
  const isPosix = header[262] === 0;
  const prefix = isPosix ? untilZero(header.toString('utf8', 345, 500)) : '';
  return prefix === '' ? name : `${prefix}/${name}`;
}

function untilZero(text: string): string {
  return text.replace(/\0.*$/s, '');
}
