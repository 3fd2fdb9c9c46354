/**
 * The uncompressed kernel inside a bzImage. qemu can start that ELF file directly (PVH entry), which
 * saves the guest from unpacking it by emulated instructions: seconds for an xz-compressed kernel.
 */
import { zstdDecompressSync } from 'node:zlib';

import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import { unpackXz } from './xz.ts';

const XZ_MAGIC = 'fd377a585a00';
const ZSTD_MAGIC = '28b52ffd';
const ELF_MAGIC = '7f454c46';

/**
 * The compressed part of a bzImage, by the fields of its setup header
 * (Documentation/arch/x86/boot.rst: `setup_sects`, `payload_offset`, `payload_length`; protocol 2.08 and later).
 *
 * @throws {RampartError} `DECODE` when the header is not one.
 */
export function bzImagePayload(image: Uint8Array): Uint8Array {
  const view = new DataView(image.buffer, image.byteOffset, image.byteLength);
  const isImage =
    image.byteLength > 0x250 &&
    view.getUint32(0x202, true) === 0x53726448 &&
    view.getUint16(0x206, true) >= 0x208;
  if (isImage) {
    const setupSectors = view.getUint8(0x1f1) || 4;
    const start = (setupSectors + 1) * 512 + view.getUint32(0x248, true);
    const end = start + view.getUint32(0x24c, true);
    if (end <= image.byteLength) return image.subarray(start, end);
  }
  throw new RampartError(errorCodes.DECODE, {
    what: 'cannot read the kernel image',
    why: 'it is not a bzImage',
  });
}

/** Begins `bytes` with these hexadecimal digits? */
function begins(bytes: Uint8Array, magic: string): boolean {
  return Buffer.from(bytes.buffer, bytes.byteOffset, magic.length / 2).toString('hex') === magic;
}

/**
 * The kernel's ELF file out of its bzImage.
 *
 * @throws {RampartError} `DECODE` when it is not a bzImage of an xz or zstd compressed ELF file.
 */
export async function unpackKernel(image: Uint8Array): Promise<Uint8Array> {
  const payload = bzImagePayload(image);
  // The kernel's build appends the unpacked size, four bytes, to the compressed stream.
  const stream = payload.subarray(0, -4);
  let kernel: Uint8Array | undefined;
  if (begins(payload, XZ_MAGIC)) kernel = await unpackXz(stream);
  if (begins(payload, ZSTD_MAGIC)) kernel = zstdDecompressSync(stream);
  if (kernel !== undefined && begins(kernel, ELF_MAGIC)) return kernel;
  throw new RampartError(errorCodes.DECODE, {
    what: 'cannot unpack the kernel image',
    why: 'its payload is not an ELF file compressed with xz or zstd',
  });
}
