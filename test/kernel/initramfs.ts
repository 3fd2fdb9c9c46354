/**
 * The first file system of the guest: a cpio archive in the kernel's `newc` format with busybox, the
 * modules that reach the host's files, and the start script (Documentation/driver-api/early-userspace/buffer-format.rst).
 */

/** One file of the archive; its parent directories are made. `mode` has the permission bits only. */
export interface ArchiveFile {
  readonly path: string;
  readonly mode: number;
  readonly content: Uint8Array;
}

const DIRECTORY = 0o040755;
const REGULAR = 0o100000;
const TRAILER = 'TRAILER!!!';

function padding(sizeBytes: number): Uint8Array {
  return new Uint8Array((4 - (sizeBytes % 4)) % 4);
}

/** A member: 13 hexadecimal fields, the name with its NUL, the content, the last two padded to 4 bytes. */
function member(inode: number, path: string, mode: number, content: Uint8Array): Uint8Array[] {
  const name = new TextEncoder().encode(`${path}\0`);
  const links = (mode & 0o170000) === 0o040000 ? 2 : 1;
  const fields = [inode, mode, 0, 0, links, 0, content.byteLength, 0, 0, 0, 0, name.byteLength, 0];
  const header = `070701${fields.map((field) => field.toString(16).padStart(8, '0')).join('')}`;
  const head = new TextEncoder().encode(header);
  return [head, name, padding(head.byteLength + name.byteLength), content, padding(content.byteLength)];
}

/** Writes the archive. Paths are relative, with `/` between names; a later file replaces an earlier one. */
export function writeInitramfs(files: readonly ArchiveFile[]): Uint8Array {
  const directories = new Set<string>();
  for (const file of files) {
    const names = file.path.split('/').slice(0, -1);
    names.forEach((_, index) => directories.add(names.slice(0, index + 1).join('/')));
  }
  const parts: Uint8Array[] = [];
  let inode = 1;
  for (const path of directories) parts.push(...member(inode++, path, DIRECTORY, new Uint8Array()));
  for (const file of files) parts.push(...member(inode++, file.path, REGULAR | file.mode, file.content));
  parts.push(...member(0, TRAILER, 0, new Uint8Array()));
  return Buffer.concat(parts);
}
