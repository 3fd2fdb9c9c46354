/** Writes tar archives (POSIX ustar): what an image layer and an image are made of. */

/** An entry of an archive. Everything belongs to root and has the time 0, so that bytes repeat. */
export type TarEntry = { readonly path: string; readonly mode?: number } & (
  | { readonly content: Uint8Array | string }
  | { readonly symlink: string }
  | { readonly hardLink: string }
  | { readonly directory: true }
);

const BLOCK_BYTES = 512;

/** The archive, with its two closing blocks. Paths may have up to 100 bytes. */
export function tar(entries: readonly TarEntry[]): Uint8Array {
  const blocks: Uint8Array[] = [];
  for (const entry of entries) {
    const content = 'content' in entry ? Buffer.from(entry.content) : Buffer.alloc(0);
    blocks.push(header(entry, content.length), content);
    const rest = content.length % BLOCK_BYTES;
    if (rest > 0) blocks.push(Buffer.alloc(BLOCK_BYTES - rest));
  }
  blocks.push(Buffer.alloc(2 * BLOCK_BYTES));
  return Buffer.concat(blocks);
}

function header(entry: TarEntry, sizeBytes: number): Uint8Array {
  const block = Buffer.alloc(BLOCK_BYTES);
  const target = 'symlink' in entry ? entry.symlink : 'hardLink' in entry ? entry.hardLink : '';
  const type = 'symlink' in entry ? '2' : 'hardLink' in entry ? '1' : 'directory' in entry ? '5' : '0';
  const mode = entry.mode ?? ('directory' in entry ? 0o755 : 'symlink' in entry ? 0o777 : 0o644);
  text(block, 0, 100, entry.path);
  octal(block, 100, 8, mode);
  octal(block, 108, 8, 0); // uid
  octal(block, 116, 8, 0); // gid
  octal(block, 124, 12, sizeBytes);
  octal(block, 136, 12, 0); // mtime
  text(block, 156, 1, type);
  text(block, 157, 100, target);
  text(block, 257, 8, 'ustar\x0000');
  // The checksum is that of the block with spaces in its place.
  block.fill(' ', 148, 156);
  const sum = block.reduce((total, byte) => total + byte, 0);
  text(block, 148, 8, `${sum.toString(8).padStart(6, '0')}\0 `);
  return block;
}

function text(block: Buffer, offset: number, lengthBytes: number, value: string): void {
  if (Buffer.byteLength(value) > lengthBytes) throw new RangeError(`too long for a tar header: ${value}`);
  block.write(value, offset, 'utf8');
}

function octal(block: Buffer, offset: number, lengthBytes: number, value: number): void {
  text(block, offset, lengthBytes, value.toString(8).padStart(lengthBytes - 1, '0'));
}
