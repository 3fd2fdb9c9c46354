/** Bytecode in a file on the node. */
import { type BigIntStats, constants, fstatSync } from 'node:fs';

import { AT_FDCWD, type Fd, openat2, openFlags, resolveFlags } from '../../../lib/ebpf/libc.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { readBounded } from '../../../lib/files/bounded-read.ts';
import { digestOf } from '../../../lib/oci/digest.ts';

/** Maximum size of an object file; one with complete debug information has some 100 kB. */
export const MAX_OBJECT_BYTES = 16 << 20;

/** Identifies the state of a file, without reading its content. */
export interface FileState {
  readonly key: string;
}

/**
 * The state of a file below the root of the node. Symbolic links are followed as on the node, and cannot lead outside of its root.
 *
 * @throws {RampartError} `INPUT` if it is not a regular file or is too large, `SYSTEM` if it cannot be opened.
 */
export function fileState(hostRoot: string, path: string): FileState {
  using file = open(hostRoot, path);
  return { key: keyOf(checked(file, path)) };
}

/** @throws {RampartError} as {@link fileState}. */
export function readObjectFile(
  hostRoot: string,
  path: string,
): FileState & { readonly digest: string; readonly bytes: Uint8Array } {
  using file = open(hostRoot, path);
  const key = keyOf(checked(file, path));
  const bytes = readBounded(file.number, MAX_OBJECT_BYTES, `the object file ${path}`);
  return { key, digest: digestOf(bytes), bytes };
}

function open(hostRoot: string, path: string): Fd {
  using root = openat2(AT_FDCWD, hostRoot, { flags: openFlags.PATH | openFlags.DIRECTORY });
  return openat2(root, path, {
    // O_NONBLOCK: opening must not block if the path is a pipe.
    flags: constants.O_RDONLY | constants.O_NONBLOCK,
    resolve: resolveFlags.IN_ROOT | resolveFlags.NO_MAGICLINKS,
  });
}

function checked(file: Fd, path: string): BigIntStats {
  const stat = fstatSync(file.number, { bigint: true });
  const refuse = (why: string): RampartError =>
    new RampartError(errorCodes.INPUT, { what: `cannot read the object file ${path}`, why });
  if (!stat.isFile()) throw refuse('it is not a regular file');
  if (stat.size > MAX_OBJECT_BYTES)
    throw refuse(`it has ${stat.size} bytes; the limit is ${MAX_OBJECT_BYTES}`);
  return stat;
}

function keyOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(' ');
}
