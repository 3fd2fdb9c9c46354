/** Writes tar archives for tests, honest ones and others. */
import { gzipSync } from 'node:zlib';

export interface TarEntry {
  readonly name: string;
  readonly content?: string | Uint8Array;
  /** Default: '0', a regular file. */
  readonly type?: string;
  readonly link?: string;
  /** In place of the size of the content. */
  readonly size?: number;
}

/** A tar archive with its end. */
export function tar(entries: readonly TarEntry[]): Buffer {
  return Buffer.concat([...entries.flatMap(entryBlocks), Buffer.alloc(1024)]);
}

/** The layer of an image of bytecode: `application/vnd.oci.image.layer.v1.tar+gzip`. */
export function tarGzip(entries: readonly TarEntry[]): Buffer {
  return gzipSync(tar(entries));
}

export const layerMediaType = 'application/vnd.oci.image.layer.v1.tar+gzip';

/** One record of a pax header. */
export function paxRecord(key: string, value: string): string {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let length = rest + 1;
  while (String(length).length + rest !== length) length = String(length).length + rest;
  return `${length} ${key}=${value}\n`;
}

function entryBlocks({ name, content = '', type = '0', link = '', size }: TarEntry): Buffer[] {
  const bytes = Buffer.from(content);
  const header = Buffer.alloc(512);
  header.write(name, 0, 100, 'utf8');
  header.write('0000644\0', 100);
  header.write('0000000\0', 108);
  header.write('0000000\0', 116);
  header.write(`${(size ?? bytes.length).toString(8).padStart(11, '0')}\0`, 124);
  header.write('00000000000\0', 136);
  header.write('        ', 148);
  header.write(type, 156);
  header.write(link, 157, 100, 'utf8');
  header.write('ustar\0', 257);
  header.write('00', 263);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return [header, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)];
}
